-- multi/acquire.lua: take all of these free locks, or none.
-- KEYS[i] lock  hash  owner -> hold count
-- ARGV[2i + 1] owner of hold i  ARGV[2i + 2] lease_ms of hold i
-- Returns {1, nonce, now} all are held; {0, nonce, now} not all are free; {4, nonce, now, error} one is of another type;
--   {6, nonce, now, error} refused: none is held.
-- Redisson: has none for locks of several names. Its multi-lock takes one after the other.
local busy = false
for i, lock in ipairs(KEYS) do
  if redis.call('EXISTS', lock) == 1 then
    local held = redis.pcall('HGET', lock, ARGV[2 * i + 1])
    if type(held) == 'table' then return {4, nonce, now, held.err} end
    busy = true
  end
end
if busy then return {0, nonce, now} end
for i, lock in ipairs(KEYS) do
  local set = redis.pcall('HINCRBY', lock, ARGV[2 * i + 1], '1')
  if type(set) == 'number' then set = redis.pcall('PEXPIRE', lock, ARGV[2 * i + 2]) end
  if type(set) == 'table' then
    -- Of those that come yet there is nothing.
    for i, lock in ipairs(KEYS) do redis.pcall('HDEL', lock, ARGV[2 * i + 1]) end
    return {6, nonce, now, set.err}
  end
end
return {1, nonce, now}

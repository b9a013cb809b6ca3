-- grouped/acquire_all.lua: take all of these free values of groups, or none.
-- KEYS[i] group of hold i  hash  as in grouped/begin.lua
-- ARGV[3i] value of hold i  ARGV[3i + 1] owner of hold i  ARGV[3i + 2] lease_ms of hold i
-- Returns {1, nonce, now} all are held; {0, nonce, now} not all are free; {4, nonce, now, error} another type;
--   {6, nonce, now, error} refused: none is held.
-- Redisson: RedissonFasterMultiLock.tryAcquireOnceAsync. Differs: any groups, each hold has an owner and a lease of its own.
local over = {}
for i, group in ipairs(KEYS) do
  local value = ARGV[3 * i]
  local holder = redis.pcall('HGET', group, value)
  if type(holder) == 'table' then return {4, nonce, now, holder.err} end
  if holder then
    if left_of(redis.call('HGET', group, until_of(value, holder))) > 0 then return {0, nonce, now} end
    over[i] = holder
  end
end
-- First, as nobody else takes them out, and what is refused here has taken nothing.
for i, group in ipairs(KEYS) do
  if over[i] then forget(group, ARGV[3 * i], over[i]) end
end
for i, group in ipairs(KEYS) do
  local refused = put(group, ARGV[3 * i], ARGV[3 * i + 1], '1', tonumber(ARGV[3 * i + 2]))
  if refused then
    local had = i - 1
    for i, group in ipairs(KEYS) do
      local value, owner = ARGV[3 * i], ARGV[3 * i + 1]
      if i <= had then redis.pcall('HDEL', group, value, until_of(value, owner), count_of(value, owner)) end
    end
    return {6, nonce, now, refused}
  end
end
return {1, nonce, now}

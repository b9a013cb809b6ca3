-- grouped/acquire_all.lua: take all of these free values of groups, or none.
-- KEYS[i] group of hold i  hash  as in grouped/begin.lua
-- ARGV[3i] value of hold i  ARGV[3i + 1] owner of hold i  ARGV[3i + 2] lease_ms of hold i
-- Returns {1, nonce, now} all are held; {0, nonce, now} not all are free; {4, nonce, now, error} another type;
--   {6, nonce, now, error} refused: none is held.
-- Redisson: RedissonFasterMultiLock.tryAcquireOnceAsync. Differs: any groups, each hold has an owner and a lease of its own.
local function names(i)
  local value = ARGV[3 * i]
  local start = value .. ':' .. ARGV[3 * i + 1]
  return value, start .. ':expire_time', start .. ':lock_count'
end
local stale = {}
for i, group in ipairs(KEYS) do
  local owner = redis.pcall('HGET', group, ARGV[3 * i])
  if type(owner) == 'table' then return {4, nonce, now, owner.err} end
  if owner then
    local value = ARGV[3 * i]
    local start = value .. ':' .. owner
    if tonumber(redis.call('HGET', group, start .. ':expire_time') or 0) > now then return {0, nonce, now} end
    if owner ~= ARGV[3 * i + 1] then stale[i] = {value, start .. ':expire_time', start .. ':lock_count'} end
  end
end
-- First, as nobody else takes them out, and what is refused here has taken nothing.
for i, group in ipairs(KEYS) do
  if stale[i] then redis.call('HDEL', group, unpack(stale[i])) end
end
for i, group in ipairs(KEYS) do
  local lease, ttl = tonumber(ARGV[3 * i + 2]), redis.call('PTTL', group)
  local value, expiry, count = names(i)
  local set = redis.pcall('HSET', group, value, ARGV[3 * i + 1], expiry, string.format('%.0f', now + lease), count, '1')
  local has = type(set) == 'number' and i or i - 1
  if has == i and ttl < lease then set = redis.pcall('PEXPIRE', group, lease) end
  if type(set) == 'table' then
    for at, group in ipairs(KEYS) do
      if at <= has then redis.pcall('HDEL', group, names(at)) end
    end
    return {6, nonce, now, set.err}
  end
end
return {1, nonce, now}

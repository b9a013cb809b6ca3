-- reentrant/release.lua: give one hold back. Moves the owner's count from n, which its client knows, to n - 1, once: another
--   copy of the call finds n - 1, and changes nothing.
-- KEYS[1] lock  hash  owner -> hold count
-- ARGV[3] owner  ARGV[4] lease_ms  ARGV[5] n
-- Announces as announce.lua; for the spin lock as silent.lua, which tells nobody.
-- Returns `1 nonce at receivers` given back, or for an inner hold {1, nonce, at, -1} (receivers of the message, -1 when none
--   was sent); {3, nonce, at} not held;
--   {4, nonce, at, error} another type; {5, nonce, at, count} not a count that n can lead from.
-- Redisson: RedissonLock.unlockInnerAsync. Differs: absolute counts and not_after in place of the latch key, an inner
--   release never shortens the TTL, a refused PUBLISH fails nothing, a hold that expired is announced too.
local lock = KEYS[1]
local owner, lease, n = ARGV[3], ARGV[4], ARGV[5]
local found = redis.pcall('HGET', lock, owner)
if found == n and n == '1' then
  redis.call('HDEL', lock, owner)
  local receivers = announce('0')
  -- Most often nobody hears it, and Lua takes long to write a number.
  return '1 ' .. nonce .. ' ' .. at .. ' ' .. (receivers == 0 and '0' or receivers)
end
if type(found) == 'table' then return {4, nonce, at, found.err} end
if found == false then
  if channel and redis.call('EXISTS', lock) == 0 then announce('0') end
  return {3, nonce, at}
end
if found ~= n and tonumber(found) ~= n - 1 then return {5, nonce, at, found} end
if redis.call('PTTL', lock) < tonumber(lease) then redis.call('PEXPIRE', lock, lease) end
if found == n then
  -- First a write that no memory limit refuses: then HINCRBY is let through too.
  redis.call('PEXPIRE', lock, redis.call('PTTL', lock))
  redis.call('HINCRBY', lock, owner, -1)
end
return {1, nonce, at, -1}

-- reentrant/release.lua: give one hold back. Moves the owner's count from n, which its client knows, to n - 1, once: another
--   copy of the call finds n - 1, and changes nothing.
-- KEYS[1] lock  hash  owner -> hold count
-- ARGV[3] owner  ARGV[4] lease_ms  ARGV[5] n
-- Announces as announce.lua; for the spin lock as silent.lua, which tells nobody.
-- Returns {1, nonce, now, receivers} given back (receivers of the message, -1 when none was sent); {3, nonce, now} not held;
--   {4, nonce, now, error} another type; {5, nonce, now, count} not a count that n can lead from.
-- Redisson: RedissonLock.unlockInnerAsync. Differs: absolute counts and not_after in place of the latch key, an inner
--   release never shortens the TTL, a refused PUBLISH fails nothing, a hold that expired is announced too.
local lock = KEYS[1]
local owner, lease, n = ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
local found = redis.pcall('HGET', lock, owner)
if type(found) == 'table' then return {4, nonce, now, found.err} end
local count = tonumber(found or 0)
if found == false then
  if channel and redis.call('EXISTS', lock) == 0 then announce('0') end
  return {3, nonce, now}
end
if count ~= n and count ~= n - 1 then return {5, nonce, now, found} end
if count == n and n == 1 then
  redis.call('HDEL', lock, owner)
  return {1, nonce, now, announce('0')}
end
if redis.call('PTTL', lock) < lease then redis.call('PEXPIRE', lock, lease) end
if count == n then
  -- First a write that no memory limit refuses: then HINCRBY is let through too.
  redis.call('PEXPIRE', lock, redis.call('PTTL', lock))
  redis.call('HINCRBY', lock, owner, -1)
end
return {1, nonce, now, -1}

-- grouped/release.lua: give one hold of a value back. Moves the owner's count from n, which its client knows, to n - 1, once:
--   another copy of the call finds n - 1, and changes nothing.
-- KEYS as grouped/begin.lua
-- ARGV[3] value  ARGV[4] owner  ARGV[5] lease_ms  ARGV[6] n
-- Announces as announce.lua.
-- Returns {1, nonce, now, receivers} given back, -1 for an inner hold; {3, nonce, now} not held;
--   {4, nonce, now, error} another type; {5, nonce, now, count} not a count that n can lead from;
--   {6, nonce, now, error} refused.
-- Redisson: RedissonFasterMultiLock.unlockInnerAsync. Differs: absolute counts and not_after in place of the latch key, an
--   inner release tells nobody and never shortens the lease.
local owner, lease, n = ARGV[4], tonumber(ARGV[5]), ARGV[6]
local holder, found, left, gone, wrong, expiry = look()
if wrong then return {4, nonce, now, wrong} end
if holder ~= owner then
  if gone == owner then remove(group, value, owner) end
  if not holder then announce('0') end
  return {3, nonce, now}
end
if found ~= n and tonumber(found) ~= n - 1 then return {5, nonce, now, found} end
if found == n and n == '1' then
  remove(group, value, owner)
  return {1, nonce, now, announce('0')}
end
-- First a write that no memory limit refuses, of a field that nobody has: then HSET is let through too.
redis.call('HDEL', group, '')
local refused = put(group, value, owner, n - 1, math.max(left, lease), found, expiry)
if refused then return {6, nonce, now, refused} end
return {1, nonce, now, -1}

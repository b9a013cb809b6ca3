-- grouped/acquire.lua: take a value of a group, or enter it once more. Moves the owner's count from n, which its client knows,
--   to n + 1, once: another copy of the call finds n + 1, and changes nothing.
-- KEYS as grouped/begin.lua
-- ARGV[3] value  ARGV[4] owner  ARGV[5] lease_ms  ARGV[6] n
-- Returns {1, nonce, now} held; {0, nonce, now, left_ms} busy; {3, nonce, now} the n holds are gone;
--   {4, nonce, now, error} another type; {5, nonce, now, count} not a count that n can lead to; {6, nonce, now, error} refused.
-- Redisson: RedissonFasterMultiLock.tryLockInnerAsync. Differs: absolute counts, not_after, the server's time, a lease only
--   grows.
local owner, lease, n = ARGV[4], tonumber(ARGV[5]), ARGV[6]
local holder, found, left, gone, wrong, expiry = look()
if wrong then return {4, nonce, now, wrong} end
if holder ~= owner and n ~= '0' then return {3, nonce, now} end
if holder and holder ~= owner then return {0, nonce, now, left} end
if holder and found ~= n and tonumber(found) ~= n + 1 then return {5, nonce, now, found} end
-- First, as nobody else takes them out, and what is refused here has written nothing.
if gone then forget(group, value, gone) end
-- Found done, it writes all the same, for a replica to confirm.
local refused = put(group, value, owner, n + 1, math.max(left, lease), found, expiry)
if refused then return {6, nonce, now, refused} end
return {1, nonce, now}

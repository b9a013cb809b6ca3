-- reentrant/acquire.lua: take the lock, or enter it once more. Moves the owner's count from n, which its client knows, to
--   n + 1, once: another copy of the call finds n + 1, and changes nothing.
-- KEYS[1] lock  hash  owner -> hold count
-- ARGV[3] owner  ARGV[4] lease_ms  ARGV[5] n
-- Returns {1, nonce, now} held; {0, nonce, now, ttl_ms} busy; {3, nonce, now} the n holds are gone;
--   {4, nonce, now, error} another type; {5, nonce, now, count} not a count that n can lead to; {6, nonce, now, error} refused.
-- Redisson: RedissonLock.tryLockInnerAsync. Differs: absolute counts, not_after, the TTL only grows, no key is left without TTL.
local lock = KEYS[1]
local owner, lease, n = ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
local found = redis.pcall('HGET', lock, owner)
if type(found) == 'table' then return {4, nonce, now, found.err} end
local count = tonumber(found or 0)
local ttl = redis.call('PTTL', lock)
if found == false then
  if n > 0 then return {3, nonce, now} end
  if ttl ~= -2 then return {0, nonce, now, ttl} end
elseif count ~= n and count ~= n + 1 then
  return {5, nonce, now, found}
end
if count == n then redis.call('HINCRBY', lock, owner, '1') end
-- Found done, it writes all the same, for a replica to confirm.
if ttl < lease or count ~= n then
  local set = redis.pcall('PEXPIRE', lock, math.max(ttl, lease))
  if type(set) == 'table' then
    if count == n then redis.call('HINCRBY', lock, owner, -1) end
    if n == 0 then redis.call('HDEL', lock, owner) end
    return {6, nonce, now, set.err}
  end
end
return {1, nonce, now}

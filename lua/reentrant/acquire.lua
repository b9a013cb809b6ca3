-- reentrant/acquire.lua: take the lock, or enter it once more. Moves the owner's count from n, which its client knows, to
--   n + 1, once: another copy of the call finds n + 1, and changes nothing.
-- KEYS[1] lock  hash  owner -> hold count
-- ARGV[3] owner  ARGV[4] lease_ms  ARGV[5] n
-- Returns `1 nonce at` held; {0, nonce, at, ttl_ms} busy; {3, nonce, at} the n holds are gone;
--   {4, nonce, at, error} another type; {5, nonce, at, count} not a count that n can lead to; {6, nonce, at, error} refused.
-- Redisson: RedissonLock.tryLockInnerAsync. Differs: absolute counts, not_after, the TTL only grows, no key is left without TTL.
local lock = KEYS[1]
local owner, lease, n = ARGV[3], ARGV[4], ARGV[5]
local ttl, found = redis.call('PTTL', lock), n
if ttl ~= -2 then
  found = redis.pcall('HGET', lock, owner)
  if type(found) == 'table' then return {4, nonce, at, found.err} end
  -- What has a mode is a read/write lock's, and this owner a reader of it.
  if n == '0' and (found == false or redis.call('HEXISTS', lock, 'mode') == 1) then return {0, nonce, at, ttl} end
end
if found == false or ttl == -2 and n ~= '0' then return {3, nonce, at} end
if found ~= n and tonumber(found) ~= n + 1 then return {5, nonce, at, found} end
if found == n then redis.call('HINCRBY', lock, owner, '1') end
-- Found done, it writes all the same, for a replica to confirm.
local lengthens = ttl < lease + 0
if lengthens or found ~= n then
  local set = redis.pcall('PEXPIRE', lock, lengthens and lease or ttl)
  if type(set) == 'table' then
    if found == n then redis.call('HINCRBY', lock, owner, -1) end
    if n == '0' then redis.call('HDEL', lock, owner) end
    return {6, nonce, at, set.err}
  end
end
return '1 ' .. nonce .. ' ' .. at

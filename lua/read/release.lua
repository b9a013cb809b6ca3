-- read/release.lua: give one read hold back. Moves the owner's count from n to n - 1, once.
-- KEYS[1] lock  hash  mode -> read or write, reader -> count, writer:write -> count
-- KEYS[2] absent  names no key, see read_write.lua
-- ARGV[3] owner  ARGV[4] lease_ms  ARGV[5] n
-- Announces as announce.lua.
-- Derives {lock}:owner:rwlock_timeout:i, as Redisson does.
-- Returns {1, nonce, now, receivers} given back (receivers of the message, -1 when none was sent); {3, nonce, now}
--   not held;
--   {4, nonce, now, error} another type; {5, nonce, now, count} not a count that n can lead from.
-- Redisson: RedissonReadLock.unlockInnerAsync. Differs: as reentrant/release.lua; the hash's TTL never shrinks; the
--   search for another reader stops at the first, and drops the dead on its way.
local lock = KEYS[1]
local owner, lease, n = ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
local found = redis.pcall('HGET', lock, owner)
if type(found) == 'table' then return {4, nonce, now, found.err} end
if found == false then
  if redis.call('EXISTS', lock) == 0 then announce('0') end
  return {3, nonce, now}
end
local count = tonumber(found)
if count and not is_reader(lock, owner, found) then
  drop_reader(lock, owner, found)
  after_reader(lock)
  return {3, nonce, now}
end
if count ~= n and count ~= n - 1 then return {5, nonce, now, found} end
if count == n and n == 1 then
  drop_reader(lock, owner, 1)
  return {1, nonce, now, after_reader(lock)}
end
-- First a write that no memory limit refuses: then the others are let through too.
local left = redis.call('PTTL', lock)
if left < lease then keep_hash(lock, lease) else redis.call('PEXPIRE', lock, left) end
keep_hold(lock, owner, 1, lease)
if count == n then
  redis.call('HINCRBY', lock, owner, '-1')
  redis.call('DEL', hold_key(lock, owner, n))
end
return {1, nonce, now, -1}

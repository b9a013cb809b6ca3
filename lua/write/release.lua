-- write/release.lua: give one write hold back. Moves the owner's count from n to n - 1, once.
-- KEYS[1] lock     hash    mode -> read or write, reader -> count, writer:write -> count
-- KEYS[2] writers  zset    lockson writers that wait -> server time until which they do
-- KEYS[3] turn     string  while it lives, readers may pass waiting writers
-- KEYS[4] absent  names no key, see read_write.lua
-- ARGV[3] owner:write  ARGV[4] lease_ms  ARGV[5] n
-- Announces as announce.lua.
-- Derives {lock}:reader:rwlock_timeout:i, as Redisson does.
-- Returns {1, nonce, now, receivers} given back (receivers of the message, -1 when none was sent); {3, nonce, now}
--   not held;
--   {4, nonce, now, error} another type; {5, nonce, now, count} not a count that n can lead from.
-- Redisson: RedissonWriteLock.unlockInnerAsync. Differs: as reentrant/release.lua; what nested read holds are left of
--   it is announced too; `0` goes behind `1` where somebody listens, as `1` is lost on a waiter that is about to sleep.
local lock, writers, turn = KEYS[1], KEYS[2], KEYS[3]
local owner, lease, n = ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
local found = redis.pcall('HGET', lock, owner)
if type(found) == 'table' then return {4, nonce, now, found.err} end
local count = tonumber(found or 0)
if found == false then
  if redis.call('EXISTS', lock) == 0 then announce_writer() end
  return {3, nonce, now}
end
if count ~= n and count ~= n - 1 then return {5, nonce, now, found} end
if count == n and n == 1 then
  return {1, nonce, now, end_write(lock, owner, writers, turn)}
end
-- It begins with a write that no memory limit refuses: then HINCRBY is let through too.
keep_write(lock, lease)
if count == n then redis.call('HINCRBY', lock, owner, '-1') end
return {1, nonce, now, -1}

-- write/acquire.lua: take the write hold, or enter it once more. Moves the owner's count from n to n + 1, once.
-- KEYS[1] lock     hash  mode -> read or write, reader -> count, writer:write -> count
-- KEYS[2] writers  zset  lockson writers that wait -> server time until which they do, and '#' and each of them -> when
--   it came, in microseconds less 1e16; its TTL ends with the last
-- KEYS[3] absent  names no key, see read_write.lua
-- ARGV[3] owner:write  ARGV[4] lease_ms  ARGV[5] n  ARGV[6] wait_ms that readers let this writer go first, 0 if it
--   does not wait
-- Derives {lock}:reader:rwlock_timeout:i, as Redisson does.
-- Returns {1, nonce, now} held; {0, nonce, now, ttl_ms} busy (-3 to ask again at once: more readers may be dead than one
--   call drops); {3, nonce, now} the n holds are gone;
--   {4, nonce, now, error} another type; {5, nonce, now, count} not a count that n can lead to;
--   {6, nonce, now, error} refused.
-- Redisson: RedissonWriteLock.tryLockInnerAsync. Differs: as reentrant/acquire.lua; a re-entry adds no TTL; readers
--   whose leases ended do not count; lockson readers let a waiting writer go first, and lockson writers one that came
--   before them.
local lock, writers = KEYS[1], KEYS[2]
local owner, lease, n, wait = ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local mode = mode_of(lock)
if type(mode) == 'table' then return {4, nonce, now, mode.err} end
local found = redis.call('HGET', lock, owner)
local count = tonumber(found or 0)
if found == false then
  if n > 0 then return {3, nonce, now} end
  local readers = mode == 'read' and look_for_readers(lock)
  if readers == 'none' then redis.call('DEL', lock) end
  local left = redis.call('PTTL', lock)
  local before = writer_before(writers, owner)
  if left ~= -2 or before then
    if wait > 0 then
      local gone = redis.pcall('ZRANGE', writers, 0, now - 1, 'BYSCORE', 'LIMIT', 0, 100)
      if gone[1] then redis.pcall('ZREM', writers, unpack(gone)) end
      if type(redis.pcall('ZADD', writers, now + wait, owner)) == 'number' then
        redis.pcall('ZADD', writers, 'NX', time[1] * 1e6 + time[2] - 1e16, place_of(owner))
        lengthen(writers, wait)
      end
    end
    if readers == 'unknown' then return {0, nonce, now, -3} end
    return {0, nonce, now, left == -2 and before - now or left}
  end
elseif count ~= n and count ~= n + 1 then
  return {5, nonce, now, found}
end
if found == false then
  redis.call('HSET', lock, 'mode', 'write', owner, '1')
elseif count == n then
  redis.call('HINCRBY', lock, owner, '1')
end
if redis.call('PTTL', lock) < lease then
  local set = redis.pcall('PEXPIRE', lock, ARGV[4])
  if type(set) == 'table' then
    if count == n and n > 0 then redis.call('HINCRBY', lock, owner, '-1') end
    if n == 0 then redis.call('DEL', lock) end
    return {6, nonce, now, set.err}
  end
end
if found then keep_write(lock, lease) end
redis.pcall('ZREM', writers, owner, place_of(owner))
return {1, nonce, now}

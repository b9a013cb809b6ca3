-- read/acquire.lua: take a read hold, or one more. Moves the owner's count from n to n + 1, once.
-- KEYS[1] lock     hash    mode -> read or write, reader -> count, writer:write -> count
-- KEYS[2] writers  zset    lockson writers that wait -> server time until which they do
-- KEYS[3] turn     string  while it lives, readers may pass waiting writers
-- ARGV[3] owner  ARGV[4] lease_ms  ARGV[5] n  ARGV[6] own_write, the owner's field as a writer
-- Derives {lock}:owner:rwlock_timeout:i, as Redisson does.
-- Returns {1, nonce, now} held; {0, nonce, now, ttl_ms} busy; {3, nonce, now} the n holds are gone;
--   {4, nonce, now, error} another type; {5, nonce, now, count} not a count that n can lead to;
--   {6, nonce, now, error} refused.
-- Redisson: RedissonReadLock.tryLockInnerAsync. Differs: as reentrant/acquire.lua; an owner who holds neither lets a
--   waiting lockson writer go first; a reader whose leases ended holds nothing; a hash without a mode is another
--   kind's lock.
local lock, writers, turn = KEYS[1], KEYS[2], KEYS[3]
local owner, lease, n, own_write = ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6]
local mode = redis.pcall('HGET', lock, 'mode')
if type(mode) == 'table' then return {4, nonce, now, mode.err} end
local found = redis.call('HGET', lock, owner)
if found and tonumber(found) and not is_reader(lock, owner, found) then found = false end
local count = tonumber(found or 0)
if found == false then
  if n > 0 then return {3, nonce, now} end
  if mode ~= 'write' or redis.call('HEXISTS', lock, own_write) == 0 then
    if mode ~= 'read' and redis.call('EXISTS', lock) == 1 then return {0, nonce, now, redis.call('PTTL', lock)} end
    if writers_wait(writers) and redis.call('EXISTS', turn) == 0 then
      return {0, nonce, now, redis.call('PTTL', writers)}
    end
  end
elseif count ~= n and count ~= n + 1 then
  return {5, nonce, now, found}
end
-- First what ends by itself: if the rest is refused, nothing stays.
if found then keep_hold(lock, owner, n + 1, lease) else set_hold(lock, owner, 1, lease) end
if found == false then
  if mode then redis.call('HSET', lock, owner, '1') else redis.call('HSET', lock, 'mode', 'read', owner, '1') end
elseif count == n then
  redis.call('HINCRBY', lock, owner, '1')
end
if n > 0 then keep_hold(lock, owner, 1, lease) end
if redis.call('PTTL', lock) < lease then
  local set = redis.pcall('PEXPIRE', lock, ARGV[4])
  if type(set) == 'table' then
    if count == n and n > 0 then redis.call('HINCRBY', lock, owner, '-1') end
    if n == 0 then drop_reader(lock, owner, 1) end
    if not mode then redis.call('DEL', lock) end
    return {6, nonce, now, set.err}
  end
end
return {1, nonce, now}

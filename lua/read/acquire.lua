-- read/acquire.lua: take a read hold, or one more. Moves the owner's count from n to n + 1, once.
-- KEYS[1] lock     hash    mode -> read or write, reader -> count, writer:write -> count
-- KEYS[2] writers  zset    lockson writers that wait -> server time until which they do
-- KEYS[3] turn     string  while it lives, readers may pass waiting writers
-- KEYS[4] absent  names no key, see read_write.lua
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
local mode = mode_of(lock)
if type(mode) == 'table' then return {4, nonce, now, mode.err} end
local found = count_of(lock, owner)
if found == false then
  if n > 0 then return {3, nonce, now} end
  if mode ~= 'write' or redis.call('HEXISTS', lock, own_write) == 0 then
    local is_busy, ttl = keeps_readers_out(lock, mode, writers, turn)
    if is_busy then return {0, nonce, now, ttl} end
  end
elseif tonumber(found) ~= n and tonumber(found) ~= n + 1 then
  return {5, nonce, now, found}
end
local refused = add_reader(lock, mode, owner, found, n, lease)
if refused then return {6, nonce, now, refused} end
return {1, nonce, now}

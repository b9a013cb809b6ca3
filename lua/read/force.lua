-- read/force.lua: end all read holds, or only one owner's. A write hold, and what is nested in it, is left alone.
-- KEYS[1] lock  hash  mode -> read or write, reader -> count, writer:write -> count
-- KEYS[2] absent  names no key, see read_write.lua
-- ARGV[3] owner, empty for everybody
-- Announces as announce.lua.
-- Derives {lock}:owner:rwlock_timeout:i, as Redisson does.
-- Returns {1, nonce, now, receivers, owner ..} ended, and whose, ten at most; {0, nonce, now} nothing was held, or not
--   by this owner; {4, nonce, now, error} another type.
-- Redisson: RedissonReadLock.forceUnlockAsync. Differs: can be asked for one owner; takes the keys of the holds along.
local lock = KEYS[1]
local owner = ARGV[3]
local mode = mode_of(lock)
if type(mode) == 'table' then return {4, nonce, now, mode.err} end
if mode ~= 'read' then return {0, nonce, now} end
if owner ~= '' then
  local found = redis.call('HGET', lock, owner)
  if not found or not is_reader(lock, owner, found) then return {0, nonce, now} end
  drop_reader(lock, owner, found)
  return {1, nonce, now, after_reader(lock), owner}
end
local reply = {1, nonce, now, -1}
local readers = each_reader(lock, function(reader, count)
  if #reply < 14 and is_reader(lock, reader, count) then reply[#reply + 1] = reader end
  drop_holds(lock, reader, 1, count)
end)
if readers == 'none' and #reply == 4 then return {0, nonce, now} end
-- Of very many readers the keys of some holds are left. They say nothing without the hash, and end with their leases.
redis.call('UNLINK', lock)
reply[4] = announce('0')
return reply

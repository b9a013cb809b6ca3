-- read/settle.lua: lower the owner's count to what its client knows (n), so that nothing stays of calls whose answers were
--   lost. Raises nothing.
-- KEYS[1] lock  hash  mode -> read or write, reader -> count, writer:write -> count
-- KEYS[2] absent  names no key, see read_write.lua
-- ARGV[3] owner  ARGV[4] n
-- Announces as announce.lua.
-- Derives {lock}:owner:rwlock_timeout:i, as Redisson does.
-- Returns {1, nonce, now, receivers} lowered (receivers of the message, -1 when none was sent); {0, nonce, now} it
--   was no higher; {3, nonce, now} not held; {4, nonce, now, error} another type.
-- Redisson: has none; a cancelled or doubtful acquire stays on the server there.
local lock = KEYS[1]
local owner, n = ARGV[3], tonumber(ARGV[4])
local found = redis.pcall('HGET', lock, owner)
if type(found) == 'table' then return {4, nonce, now, found.err} end
if found == false then return {3, nonce, now} end
local count = tonumber(found) or 0
if count <= n then return {0, nonce, now} end
if n > 0 then
  -- First a write that no memory limit refuses, of a field that nobody has: then HSET is let through too.
  redis.call('HDEL', lock, '')
  redis.call('HSET', lock, owner, ARGV[4])
  drop_holds(lock, owner, n + 1, count)
  return {1, nonce, now, -1}
end
drop_reader(lock, owner, found)
return {1, nonce, now, after_reader(lock)}

-- reentrant/settle.lua: lower the owner's count to what its client knows (n), so that nothing stays of calls whose answers were
--   lost. Raises nothing.
-- KEYS[1] lock  hash  owner -> hold count
-- ARGV[3] owner  ARGV[4] n
-- Announces as announce.lua; for the spin lock as silent.lua, which tells nobody.
-- Returns {1, nonce, now, receivers} lowered (receivers of the message, -1 when none was sent); {0, nonce, now} it was no
--   higher; {3, nonce, now} not held; {4, nonce, now, error} another type.
-- Redisson: has none; a cancelled or doubtful acquire stays on the server there.
local lock = KEYS[1]
local owner, n = ARGV[3], tonumber(ARGV[4])
local found = redis.pcall('HGET', lock, owner)
if type(found) == 'table' then return {4, nonce, now, found.err} end
if found == false then return {3, nonce, now} end
if (tonumber(found) or 0) <= n then return {0, nonce, now} end
-- A reader's, of a read/write lock of the same name.
if n == 0 and redis.call('HEXISTS', lock, 'mode') == 1 then return {3, nonce, now} end
if n > 0 then
  -- First a write that no memory limit refuses, of a field that nobody has: then HSET is let through too.
  redis.call('HDEL', lock, '')
  redis.call('HSET', lock, owner, n)
  return {1, nonce, now, -1}
end
redis.call('HDEL', lock, owner)
return {1, nonce, now, announce('0')}

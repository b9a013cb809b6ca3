-- write/settle.lua: lower the owner's count to what its client knows (n), 0 for a waiter that went away, so that nothing
--   stays of calls whose answers were lost. Raises nothing.
-- KEYS[1] lock     hash    mode -> read or write, reader -> count, writer:write -> count
-- KEYS[2] writers  zset    lockson writers that wait -> server time until which they do
-- KEYS[3] turn     string  while it lives, readers may pass waiting writers
-- KEYS[4] absent  names no key, see read_write.lua
-- ARGV[3] owner:write  ARGV[4] n
-- Announces as announce.lua.
-- Derives {lock}:reader:rwlock_timeout:i, as Redisson does.
-- Returns {1, nonce, now, receivers} lowered (receivers of the message, -1 when none was sent); {0, nonce, now} it
--   was no higher; {3, nonce, now} not held; {4, nonce, now, error} another type.
-- Redisson: has none; a cancelled or doubtful acquire stays on the server there.
local lock, writers, turn = KEYS[1], KEYS[2], KEYS[3]
local owner, n = ARGV[3], tonumber(ARGV[4])
local found = redis.pcall('HGET', lock, owner)
if type(found) == 'table' then return {4, nonce, now, found.err} end
local left = redis.pcall('ZREM', writers, owner, place_of(owner))
if found == false then
  -- Who let it go first need not any more: the next writer, or readers where none waits.
  local mode = redis.call('HGET', lock, 'mode')
  local goes_on = not mode or mode == 'read' and not writers_wait(writers)
  if type(left) == 'number' and left > 0 and goes_on then announce('1') end
  return {3, nonce, now}
end
if (tonumber(found) or 0) <= n then return {0, nonce, now} end
if n > 0 then
  -- First a write that no memory limit refuses, of a field that nobody has: then HSET is let through too.
  redis.call('HDEL', lock, '')
  redis.call('HSET', lock, owner, ARGV[4])
  return {1, nonce, now, -1}
end
return {1, nonce, now, end_write(lock, owner, writers, turn)}

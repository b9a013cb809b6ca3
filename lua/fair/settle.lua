-- fair/settle.lua: lower the owner's count to what its client knows (n), and take it out of the queue if it waits no more, so
--   that nothing stays of calls whose answers were lost. Raises nothing.
-- KEYS as fair/begin.lua
-- ARGV[3] owner  ARGV[4] n  ARGV[5] 0: nobody waits as this owner any more
-- Returns as reentrant/settle.lua.
-- Redisson: none, as for reentrant/settle.lua; of the queue, see fair/leave.lua.
local owner, n, waits = ARGV[3], tonumber(ARGV[4]), ARGV[5] ~= '0'
local found = redis.pcall('HGET', lock, owner)
if type(found) == 'table' then return {4, nonce, now, found.err} end
-- A reader's, of a read/write lock of the same name.
if found and n == 0 and redis.call('HEXISTS', lock, 'mode') == 1 then found = false end
-- The count first: the hold ends, whatever becomes of the queue.
local lowers = found and (tonumber(found) or 0) > n
if lowers and n > 0 then
  -- First a write that no memory limit refuses, of a field that nobody has: then HSET is let through too.
  redis.call('HDEL', lock, '')
  redis.call('HSET', lock, owner, n)
elseif lowers then
  redis.call('HDEL', lock, owner)
end
local head = not waits and redis.call('LINDEX', queue, '0')
if not waits then remove(owner, head) end
if found == false then
  if head == owner and redis.call('EXISTS', lock) == 0 then wake() end
  return {3, nonce, now}
end
if not lowers then return {0, nonce, now} end
if n > 0 then return {1, nonce, now, -1} end
return {1, nonce, now, wake()}

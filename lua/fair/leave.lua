-- fair/leave.lua: take a waiter that goes away out of the queue. If it was the head, and the lock is free, the next is told.
-- KEYS as fair/begin.lua
-- ARGV[3] owner
-- Returns {1, nonce, now}; {4, nonce, now, error} another type, nothing was written.
-- Redisson: acquireFailedAsync, when a wait ends. Differs: a head that goes away wakes the next; no score is changed. Who is
--   not the head is looked for in the whole list.
local owner = ARGV[3]
local held = redis.pcall('HEXISTS', lock, owner)
if type(held) == 'table' then return {4, nonce, now, held.err} end
local head = redis.call('LINDEX', queue, '0')
remove(owner, head)
if head == owner and held == 0 and redis.call('EXISTS', lock) == 0 then wake() end
return {1, nonce, now}

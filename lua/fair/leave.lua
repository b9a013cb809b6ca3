-- fair/leave.lua: take waiters that go away out of the queue. If the head was one, and the lock is free, the next is told.
-- KEYS as fair/begin.lua
-- ARGV[3] owner
-- ARGV[i] others that leave with it, for i from 4 on
-- Returns {1, nonce, now, gone}: so many of them, from the first on, have no place; {4, nonce, now, error} another type,
--   nothing was written.
-- Redisson: acquireFailedAsync, when a wait ends. Differs: a head that goes away wakes the next; no score is changed.
-- After so many places were looked through for who leaves from within the queue, the next call goes on.
local PLACES = 20000

local held = redis.pcall('HEXISTS', lock, ARGV[3])
if type(held) == 'table' then return {4, nonce, now, held.err} end
local head = redis.call('LINDEX', queue, '0')
local gone, looked, headed = 0, 0, false
for i = 3, #ARGV do
  local owner = ARGV[i]
  local _, places = remove(owner, head)
  gone, looked = gone + 1, looked + places
  if owner == head then
    head, headed = redis.call('LINDEX', queue, '0'), true
  end
  if looked > PLACES then break end
end
if headed and redis.call('EXISTS', lock) == 0 then wake() end
return {1, nonce, now, gone}

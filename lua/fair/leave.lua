-- fair/leave.lua: take waiters that go away out of the queue. If the head was one, and the lock is free, the next is told.
-- KEYS as fair/begin.lua
-- ARGV[i] owner of each, for i from 3 on
-- Returns {1, nonce, now, gone}: so many of them, from the first on, have no place; {4, nonce, now, error} another type,
--   nothing was written.
-- Redisson: acquireFailedAsync, when a wait ends. Differs: a head that goes away wakes the next; no score is changed. Who is
--   not the head is looked for in the whole list.
-- So many places are looked through in one call, and those for one of them. The next call goes on.
local PLACES = 10000

local held = redis.pcall('HEXISTS', lock, ARGV[3])
if type(held) == 'table' then return {4, nonce, now, held.err} end
local head = redis.call('LINDEX', queue, '0')
local first, gone, places = head, 0, 0
for i = 3, #ARGV do
  local owner = ARGV[i]
  local is_at_end = owner == head or owner == redis.call('LINDEX', queue, '-1')
  local waiting = remove(owner, head)
  gone = gone + 1
  if owner == head then head = redis.call('LINDEX', queue, '0') end
  if not is_at_end then places = places + waiting end
  if places > PLACES then break end
end
if head ~= first and redis.call('EXISTS', lock) == 0 then wake() end
return {1, nonce, now, gone}

-- fair/place.lua: how long the queue is, and where an owner is in it. Writes nothing.
-- KEYS as fair/begin.lua
-- ARGV[3] owner
-- Returns {1, nonce, now, length, place}: 0 is the next, -1 is not in the queue; {4, nonce, now, error} another type.
-- Redisson: has none. The place costs O(length).
local length = redis.pcall('LLEN', queue)
if type(length) == 'table' then return {4, nonce, now, length.err} end
return {1, nonce, now, length, redis.call('LPOS', queue, ARGV[3]) or -1}

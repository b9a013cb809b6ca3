-- fair/place.lua: how long the queue is, and where an owner is in it. Writes nothing.
-- KEYS as fair/begin.lua
-- ARGV[3] owner
-- Returns {1, nonce, now, length, place}: 0 is the next, -1 is not in the queue; {4, nonce, now, error} another type.
-- Redisson: has none. The list is read up to the owner.
local length, score = redis.pcall('LLEN', queue), redis.pcall('ZSCORE', timeouts, ARGV[3])
for _, read in ipairs({length, score}) do
  if type(read) == 'table' then return {4, nonce, now, read.err} end
end
if not score then return {1, nonce, now, length, -1} end
return {1, nonce, now, length, redis.call('LPOS', queue, ARGV[3]) or -1}

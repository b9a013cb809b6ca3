-- fair/hand_over.lua: the last hold of one owner becomes the first hold of another, with nothing in between, if that is the
--   next; else it is given back as by fair/release.lua.
-- KEYS as fair/begin.lua
-- ARGV[3] from  ARGV[4] to  ARGV[5] lease_ms of the new hold
-- Returns {1, nonce, now} handed over; {0, nonce, now, receivers} given back, and the head of the queue told; {3, nonce, now}
--   `from` holds nothing; {4, nonce, now, error} another type; {5, nonce, now, count} `from` does not hold it exactly once.
-- Redisson: has none. To Java it looks like an unlock and a lock by the next one.
local from, to, lease = ARGV[3], ARGV[4], tonumber(ARGV[5])
local held = redis.pcall('HGET', lock, from)
if type(held) == 'table' then return {4, nonce, now, held.err} end
if held == false and redis.call('HGET', lock, to) == '1' then
  -- An earlier copy did it: meanwhile the new hold may have a longer lease.
  redis.call('PEXPIRE', lock, math.max(redis.call('PTTL', lock), lease))
  return {1, nonce, now}
elseif held == false then
  tell_if_free()
  return {3, nonce, now}
end
if held ~= '1' then return {5, nonce, now, held} end
local heads = redis.pcall('LRANGE', queue, '0', '1')
-- Given back first: what is refused then is a release.
redis.call('HDEL', lock, from)
local set = heads[1] == to and redis.pcall('HSET', lock, to, '1')
if type(set) == 'number' then set = redis.pcall('PEXPIRE', lock, ARGV[5]) end
if type(set) ~= 'number' then
  if set then redis.call('HDEL', lock, to) end
  return {0, nonce, now, wake()}
end
-- It has it, whatever becomes of its place: that is dropped as dead then.
pcall(function() served(remove(to, to), heads[2], lease) end)
return {1, nonce, now}

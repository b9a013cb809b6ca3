-- fair/hand_over.lua: the last hold of one owner becomes the first hold of another, with nothing in between, if that is the
--   next; else it is given back as by fair/release.lua.
-- KEYS as fair/begin.lua
-- ARGV[3] from  ARGV[4] to  ARGV[5] lease_ms of the new hold
-- Returns {1, nonce, now} handed over; {0, nonce, now, receivers} given back, and the head of the queue told; {3, nonce, now}
--   `from` holds nothing; {4, nonce, now, error} another type; {5, nonce, now, count} `from` does not hold it exactly once;
--   {6, nonce, now, error} refused.
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
if heads[1] ~= to then
  redis.call('HDEL', lock, from)
  return {0, nonce, now, wake()}
end
-- Asked first: without it both would have the lock. (Behind it, the key would be gone between the two: of a slot that moves, it may
-- not be made anew.)
if not redis.acl_check_cmd('HDEL', lock, from) then return {6, nonce, now, 'NOPERM no permission to HDEL the lock'} end
redis.call('HSET', lock, to, '1')
local set = redis.pcall('PEXPIRE', lock, ARGV[5])
if type(set) == 'table' then
  redis.call('HDEL', lock, to)
  return {6, nonce, now, set.err}
end
redis.call('HDEL', lock, from)
-- It has it, whatever becomes of its place: that is dropped as dead then.
pcall(function() served(remove(to, to), heads[2], lease) end)
return {1, nonce, now}

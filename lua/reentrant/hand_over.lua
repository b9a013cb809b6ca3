-- reentrant/hand_over.lua: the last hold of one owner becomes the first hold of another, with nothing in between.
-- KEYS[1] lock  hash  owner -> hold count
-- ARGV[3] from  ARGV[4] to  ARGV[5] lease_ms of the new hold
-- Returns {1, nonce, now} handed over; {3, nonce, now} `from` holds nothing; {4, nonce, now, error} another type;
--   {5, nonce, now, count} `from` does not hold it exactly once; {6, nonce, now, error} refused.
-- Redisson: has none. To Java it looks like an unlock and a lock that nobody came between.
local lock = KEYS[1]
local from, to, lease = ARGV[3], ARGV[4], tonumber(ARGV[5])
local held = redis.pcall('HGET', lock, from)
if type(held) == 'table' then return {4, nonce, now, held.err} end
if held == false then
  if redis.call('HGET', lock, to) ~= '1' then return {3, nonce, now} end
  -- An earlier copy did it: meanwhile the new hold may have a longer lease. It writes all the same, for a replica to confirm.
  redis.call('PEXPIRE', lock, math.max(redis.call('PTTL', lock), lease))
  return {1, nonce, now}
end
if held ~= '1' then return {5, nonce, now, held} end
-- Asked first: without it both would have the lock.
if not redis.acl_check_cmd('HDEL', lock, from) then return {6, nonce, now, 'NOPERM no permission to HDEL the lock'} end
redis.call('HSET', lock, to, '1')
local set = redis.pcall('PEXPIRE', lock, ARGV[5])
if type(set) == 'table' then
  redis.call('HDEL', lock, to)
  return {6, nonce, now, set.err}
end
redis.call('HDEL', lock, from)
return {1, nonce, now}

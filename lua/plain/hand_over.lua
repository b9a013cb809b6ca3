-- plain/hand_over.lua: one hold ends and another begins, with nothing in between.
-- KEYS[1] lock  string  the token of the hold
-- ARGV[3] token of the hold that ends  ARGV[4] token of the new hold  ARGV[5] lease_ms of the new hold
-- Returns {1, nonce, now} handed over; {3, nonce, now} not held by the first; {4, nonce, now, error} another type;
--   {6, nonce, now, error} refused.
-- Redisson: has none. To other libraries it looks like an unlock and a lock that nobody came between.
local lock = KEYS[1]
local from, to, lease = ARGV[3], ARGV[4], tonumber(ARGV[5])
local found = redis.pcall('GET', lock)
if type(found) == 'table' then return {4, nonce, now, found.err} end
if found == to then
  -- An earlier copy did it: meanwhile the new hold may have a longer lease. It writes all the same, for a replica to confirm.
  redis.call('PEXPIRE', lock, math.max(redis.call('PTTL', lock), lease))
  return {1, nonce, now}
end
if found ~= from then return {3, nonce, now} end
local set = redis.pcall('SET', lock, to, 'PX', ARGV[5])
if set.err then return {6, nonce, now, set.err} end
return {1, nonce, now}

-- reentrant/move.lua: a run's hold becomes that of the owner whose turn it is, with nothing in between. The TTL only grows.
-- KEYS[1] lock  hash  owner -> hold count
-- ARGV[3] run  ARGV[4] owner  ARGV[5] lease_ms, 0 to leave it
-- Returns {1, nonce, now} the owner holds it; {3, nonce, now} neither holds it; {4, nonce, now, error} another type;
--   {5, nonce, now, count} the run does not hold it exactly once; {6, nonce, now, error} refused.
-- Redisson: has none. To Java it looks like an unlock and a lock that nobody came between.
local lock = KEYS[1]
local run, owner, lease = ARGV[3], ARGV[4], tonumber(ARGV[5])
local held = redis.pcall('HGET', lock, run)
if type(held) == 'table' then return {4, nonce, now, held.err} end
if held == false and redis.call('HEXISTS', lock, owner) == 0 then return {3, nonce, now} end
if held and held ~= '1' then return {5, nonce, now, held} end
-- Asked first: without it both would have the lock.
if not redis.acl_check_cmd('HDEL', lock, run) then return {6, nonce, now, 'NOPERM no permission to HDEL the lock'} end
-- First a write that no memory limit refuses: then HSET is let through too. Found done, it writes all the same, for a replica
-- to confirm.
local set = redis.pcall('PEXPIRE', lock, math.max(redis.call('PTTL', lock), lease, 1))
if type(set) == 'number' and held then set = redis.pcall('HSET', lock, owner, '1') end
if type(set) == 'table' then return {6, nonce, now, set.err} end
redis.call('HDEL', lock, run)
return {1, nonce, now}

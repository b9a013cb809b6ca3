-- reentrant/extend.lua: set the lease of a hold exactly, or (lease 0) only look whether it is still there.
-- KEYS[1] lock  hash  owner -> hold count
-- ARGV[3] owner  ARGV[4] lease_ms, 0 to leave it
-- Returns {1, nonce, now, ttl_ms} held; {3, nonce, now} not held; {4, nonce, now, error} another type.
-- Redisson: has none for a holder.
local lock = KEYS[1]
local owner, lease = ARGV[3], tonumber(ARGV[4])
local held = redis.pcall('HEXISTS', lock, owner)
if type(held) == 'table' then return {4, nonce, now, held.err} end
if held == 0 then return {3, nonce, now} end
if lease > 0 then redis.call('PEXPIRE', lock, lease) end
return {1, nonce, now, redis.call('PTTL', lock)}

-- plain/extend.lua: set the lease of a hold exactly, or (lease 0) only look whether it is still there.
-- KEYS[1] lock  string  the token of the hold
-- ARGV[3] token  ARGV[4] lease_ms, 0 to leave it
-- Returns {1, nonce, now, ttl_ms} held; {3, nonce, now} not held; {4, nonce, now, error} another type.
-- Redisson: has none.
local lock = KEYS[1]
local token, lease = ARGV[3], tonumber(ARGV[4])
local found = redis.pcall('GET', lock)
if type(found) == 'table' then return {4, nonce, now, found.err} end
if found ~= token then return {3, nonce, now} end
if lease > 0 then redis.call('PEXPIRE', lock, ARGV[4]) end
return {1, nonce, now, redis.call('PTTL', lock)}

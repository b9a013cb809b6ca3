-- plain/inspect.lua: whether anybody holds it, and whether it is this hold. Writes nothing, and tells nobody's token.
-- KEYS[1] lock  string  the token of the hold
-- ARGV[3] token
-- Returns {1, nonce, now, ttl_ms, token, 1} held by this hold; {1, nonce, now, ttl_ms} by another; {0, nonce, now} free;
--   {4, nonce, now, error} another type.
-- Redisson: has none.
local lock = KEYS[1]
local token = ARGV[3]
local found = redis.pcall('GET', lock)
if type(found) == 'table' then return {4, nonce, now, found.err} end
if found == false then return {0, nonce, now} end
local ttl = redis.call('PTTL', lock)
if found ~= token then return {1, nonce, now, ttl} end
return {1, nonce, now, ttl, token, 1}

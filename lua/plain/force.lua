-- plain/force.lua: end whatever hold there is, of any client of any library.
-- KEYS[1] lock  string  the token of the hold
-- Announces as announce.lua.
-- Returns {1, nonce, now, receivers} ended; {0, nonce, now} nothing was held; {4, nonce, now, error} another type.
-- Redisson: has none.
local lock = KEYS[1]
local found = redis.pcall('GET', lock)
if type(found) == 'table' then return {4, nonce, now, found.err} end
if found == false then return {0, nonce, now} end
redis.call('DEL', lock)
return {1, nonce, now, announce('0')}

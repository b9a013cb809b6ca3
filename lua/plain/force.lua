-- plain/force.lua: end whatever hold there is, of any client of any library, or only one with its token.
-- KEYS[1] lock  string  the token of the hold
-- ARGV[3] token, empty for any
-- Announces as announce.lua.
-- Returns {1, nonce, now, receivers} ended; {0, nonce, now} nothing was held, or not with this token; {4, nonce, now, error} another type.
-- Redisson: has none.
local lock, token = KEYS[1], ARGV[3] or ''
local found = redis.pcall('GET', lock)
if type(found) == 'table' then return {4, nonce, now, found.err} end
if found == false or token ~= '' and token ~= found then return {0, nonce, now} end
redis.call('DEL', lock)
return {1, nonce, now, announce('0')}

-- plain/settle.lua: end one hold that the client's registry does not have, so that nothing stays of calls whose answers were lost.
-- KEYS[1] lock  string  the token of the hold
-- ARGV[3] token  ARGV[4] n, how often the registry has this hold: 0 or 1
-- Announces as announce.lua.
-- Returns {1, nonce, now, receivers} ended (receivers of the message, -1 when none was sent); {0, nonce, now} the registry
--   has it; {3, nonce, now} not held; {4, nonce, now, error} another type.
-- Redisson: has none.
local lock = KEYS[1]
local token, n = ARGV[3], tonumber(ARGV[4])
local found = redis.pcall('GET', lock)
if type(found) == 'table' then return {4, nonce, now, found.err} end
if found ~= token then return {3, nonce, now} end
if n > 0 then return {0, nonce, now} end
redis.call('DEL', lock)
return {1, nonce, now, announce('0')}

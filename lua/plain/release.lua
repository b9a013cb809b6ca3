-- plain/release.lua: end one hold, if it is still there.
-- KEYS[1] lock  string  the token of the hold
-- ARGV[3] token
-- Announces as announce.lua.
-- Returns {1, nonce, now, receivers} given back (receivers of the message, -1 when none was sent); {3, nonce, now} not held;
--   {4, nonce, now, error} another type.
-- Redisson: has none. Other libraries compare and delete too; they publish nothing.
local lock = KEYS[1]
local token = ARGV[3]
local found = redis.pcall('GET', lock)
if type(found) == 'table' then return {4, nonce, now, found.err} end
if found ~= token then
  if found == false then announce('0') end
  return {3, nonce, now}
end
redis.call('DEL', lock)
return {1, nonce, now, announce('0')}

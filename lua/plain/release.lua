-- plain/release.lua: end one hold, if it is still there.
-- KEYS[1] lock  string  the token of the hold
-- ARGV[3] token
-- Announces as announce.lua.
-- Returns `1 nonce at receivers` given back (receivers of the message, -1 when none was sent); {3, nonce, at} not held;
--   {4, nonce, at, error} another type.
-- Redisson: has none. Other libraries compare and delete too; they publish nothing.
local lock = KEYS[1]
local token = ARGV[3]
local found = redis.pcall('GET', lock)
if found == token then
  redis.call('DEL', lock)
  local receivers = announce('0')
  -- Most often nobody hears it, and Lua takes long to write a number.
  return '1 ' .. nonce .. ' ' .. at .. ' ' .. (receivers == 0 and '0' or receivers)
end
if type(found) == 'table' then return {4, nonce, at, found.err} end
if found == false then announce('0') end
return {3, nonce, at}

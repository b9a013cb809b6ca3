-- grouped/settle.lua: lower the owner's count of a value to what its client knows (n), so that nothing stays of calls whose
--   answers were lost. Raises nothing.
-- KEYS as grouped/begin.lua
-- ARGV[3] value  ARGV[4] owner  ARGV[5] n
-- Announces as announce.lua.
-- Returns {1, nonce, now, receivers} lowered (receivers of the message, -1 when none was sent); {0, nonce, now} it was no
--   higher; {3, nonce, now} not held; {4, nonce, now, error} another type.
-- Redisson: has none; a cancelled or doubtful acquire stays on the server there.
local owner, n = ARGV[4], tonumber(ARGV[5])
local holder, found, left, gone, wrong = look()
if wrong then return {4, nonce, now, wrong} end
if holder ~= owner then
  if gone == owner then remove(group, value, owner) end
  return {3, nonce, now}
end
if (tonumber(found) or 0) <= n then return {0, nonce, now} end
if n > 0 then
  -- First a write that no memory limit refuses, of a field that nobody has: then HSET is let through too.
  redis.call('HDEL', group, '')
  redis.call('HSET', group, count_of(value, owner), n)
  return {1, nonce, now, -1}
end
remove(group, value, owner)
return {1, nonce, now, announce('0')}

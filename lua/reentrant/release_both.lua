-- reentrant/release_both.lua: give back the one hold of a run or of the owner whose turn it is: whether it was moved from one
--   to the other is not known.
-- KEYS[1] lock  hash  owner -> hold count
-- ARGV[3] run  ARGV[4] owner
-- Announces as announce.lua.
-- Returns {1, nonce, now, receivers} given back (receivers of the message, -1 when none was sent); {3, nonce, now} neither
--   holds it; {4, nonce, now, error} another type.
-- Redisson: has none.
local lock = KEYS[1]
local held = redis.pcall('HEXISTS', lock, ARGV[3])
if type(held) == 'table' then return {4, nonce, now, held.err} end
if redis.call('HDEL', lock, ARGV[3], ARGV[4]) == 0 then
  if redis.call('EXISTS', lock) == 0 then announce('0') end
  return {3, nonce, now}
end
return {1, nonce, now, announce('0')}

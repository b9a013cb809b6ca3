-- grouped/force.lua: end whatever hold of a value there is, or only one owner's.
-- KEYS as grouped/begin.lua
-- ARGV[3] value  ARGV[4] owner, empty for anybody
-- Announces as announce.lua.
-- Returns {1, nonce, now, receivers, owner} ended, and whose; {0, nonce, now} nothing was held, or not by this owner;
--   {4, nonce, now, error} another type.
-- Redisson: RedissonFasterMultiLock.forceUnlockAsync. Differs: can be asked for one owner.
local owner = ARGV[4]
local holder, found, left, gone, wrong = look()
if wrong then return {4, nonce, now, wrong} end
if not holder or owner ~= '' and owner ~= holder then return {0, nonce, now} end
remove(group, value, holder)
return {1, nonce, now, announce('0'), holder}

-- reentrant/force.lua: end whatever hold there is, or only one owner's.
-- KEYS[1] lock  hash  owner -> hold count
-- ARGV[3] owner, empty for anybody
-- Announces as announce.lua; for the spin lock as silent.lua, which tells nobody.
-- Returns {1, nonce, now, receivers, owner ..} ended, and whose, ten at most; {0, nonce, now} nothing was held, or not
--   by this owner; {4, nonce, now, error} another type.
-- Redisson: RedissonLock.forceUnlockAsync. Differs: deletes nothing but a lock, and can be asked for one owner.
local lock = KEYS[1]
local owner = ARGV[3]
local held = redis.pcall('HEXISTS', lock, owner)
if type(held) == 'table' then return {4, nonce, now, held.err} end
if owner == '' then held = redis.call('EXISTS', lock) end
if held == 0 then return {0, nonce, now} end
local reply = {1, nonce, now, -1}
local page = redis.call('HSCAN', lock, '0', 'COUNT', 10)[2]
for at = 1, math.min(#page, 20), 2 do reply[#reply + 1] = page[at] end
redis.call('UNLINK', lock)
reply[4] = announce('0')
return reply

-- reentrant/force.lua: end whatever hold there is, or only one owner's.
-- KEYS[1] lock  hash  owner -> hold count
-- KEYS[2] channel  left out by the spin lock, which announces nothing
-- ARGV[3] owner, empty for anybody
-- Returns {1, nonce, now, receivers} ended; {0, nonce, now} nothing was held, or not by this owner; {4, nonce, now, error} another type.
-- Redisson: RedissonLock.forceUnlockAsync. Differs: deletes nothing but a lock, and can be asked for one owner.
local lock, channel = KEYS[1], KEYS[2]
local owner = ARGV[3]
local held = redis.pcall('HEXISTS', lock, owner)
if type(held) == 'table' then return {4, nonce, now, held.err} end
if owner == '' then held = redis.call('EXISTS', lock) end
if held == 0 then return {0, nonce, now} end
redis.call('UNLINK', lock)
local receivers = channel and redis.pcall('PUBLISH', channel, '0')
if type(receivers) ~= 'number' then receivers = -1 end
return {1, nonce, now, receivers}

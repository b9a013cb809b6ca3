-- reentrant/force.lua: end whatever hold there is, or only one owner's.
-- KEYS[1] lock  hash  owner -> hold count
-- KEYS[2] channel  left out by the spin lock, which announces nothing
-- ARGV[3] owner, empty for anybody
-- Returns {1, nonce, now, receivers, owner ..} ended, and whose, ten at most; {0, nonce, now} nothing was held, or not
--   by this owner; {4, nonce, now, error} another type.
-- Redisson: RedissonLock.forceUnlockAsync. Differs: deletes nothing but a lock, and can be asked for one owner.
local lock, channel = KEYS[1], KEYS[2]
local owner = ARGV[3]
local fields = redis.pcall('HKEYS', lock)
if fields.err then return {4, nonce, now, fields.err} end
if not fields[1] then return {0, nonce, now} end
if owner ~= '' and redis.call('HEXISTS', lock, owner) == 0 then return {0, nonce, now} end
redis.call('DEL', lock)
local receivers = channel and redis.pcall('PUBLISH', channel, '0')
if type(receivers) ~= 'number' then receivers = -1 end
return {1, nonce, now, receivers, unpack(fields, 1, 10)}

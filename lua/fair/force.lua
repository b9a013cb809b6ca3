-- fair/force.lua: end whatever hold there is, or only one owner's.
-- KEYS as fair/begin.lua
-- ARGV[3] owner, empty for anybody
-- Returns as reentrant/force.lua.
-- Redisson: RedissonFairLock.forceUnlockAsync. Differs: as reentrant/force.lua.
local owner = ARGV[3]
local fields = redis.pcall('HKEYS', lock)
if fields.err then return {4, nonce, now, fields.err} end
if not fields[1] then return {0, nonce, now} end
if owner ~= '' and redis.call('HEXISTS', lock, owner) == 0 then return {0, nonce, now} end
redis.call('DEL', lock)
return {1, nonce, now, wake(), unpack(fields, 1, 10)}

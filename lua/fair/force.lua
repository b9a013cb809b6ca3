-- fair/force.lua: end whatever hold there is, or only one owner's.
-- KEYS as fair/begin.lua
-- ARGV[3] owner, empty for anybody
-- Returns as reentrant/force.lua.
-- Redisson: RedissonFairLock.forceUnlockAsync. Differs: as reentrant/force.lua.
local owner = ARGV[3]
local held = redis.pcall('HEXISTS', lock, owner)
if type(held) == 'table' then return {4, nonce, now, held.err} end
if owner == '' then held = redis.call('EXISTS', lock) end
if held == 0 then return {0, nonce, now} end
redis.call('UNLINK', lock)
return {1, nonce, now, wake()}

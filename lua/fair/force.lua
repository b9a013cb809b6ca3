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
local reply = {1, nonce, now, -1}
local page = redis.call('HSCAN', lock, '0', 'COUNT', 10)[2]
for at = 1, math.min(#page, 20), 2 do reply[#reply + 1] = page[at] end
redis.call('UNLINK', lock)
reply[4] = wake()
return reply

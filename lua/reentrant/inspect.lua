-- reentrant/inspect.lua: who holds it. Writes nothing.
-- KEYS[1] lock  hash  owner -> hold count
-- Returns {1, nonce, now, ttl_ms, owner, count} held; {0, nonce, now} free; {4, nonce, now, error} another type.
-- Redisson: isLocked, getHoldCount, remainTimeToLive, in one.
local lock = KEYS[1]
local fields = redis.pcall('HGETALL', lock)
if fields.err then return {4, nonce, now, fields.err} end
if not fields[1] then return {0, nonce, now} end
return {1, nonce, now, redis.call('PTTL', lock), fields[1], fields[2]}

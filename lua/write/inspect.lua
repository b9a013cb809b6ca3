-- write/inspect.lua: who writes. Writes nothing.
-- KEYS[1] lock  hash  mode -> read or write, reader -> count, writer:write -> count
-- Returns {1, nonce, now, ttl_ms, owner, count} held; {0, nonce, now} by nobody; {4, nonce, now, error} another type.
-- Redisson: writeLock().isLocked, getHoldCount, remainTimeToLive, in one.
local lock = KEYS[1]
local mode = redis.pcall('HGET', lock, 'mode')
if type(mode) == 'table' then return {4, nonce, now, mode.err} end
if mode ~= 'write' or is_write_over(lock) then return {0, nonce, now} end
local writer, count = writer_of(lock, '')
if writer == true then return {4, nonce, now, 'its hash has too many fields'} end
if not writer then return {0, nonce, now} end
return {1, nonce, now, write_left(lock), writer, count}

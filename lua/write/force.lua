-- write/force.lua: end the write hold, whoever has it, or only one owner's. Read holds are left alone.
-- KEYS[1] lock     hash    mode -> read or write, reader -> count, writer:write -> count
-- KEYS[2] writers  zset    lockson writers that wait -> server time until which they do
-- KEYS[3] turn     string  while it lives, readers may pass waiting writers
-- KEYS[4] absent  names no key, see read_write.lua
-- ARGV[3] owner:write, empty for anybody
-- Announces as announce.lua.
-- Derives {lock}:reader:rwlock_timeout:i, as Redisson does.
-- Returns {1, nonce, now, receivers, owner} ended, and whose; {0, nonce, now} nothing was held, or not by this owner;
--   {4, nonce, now, error} another type.
-- Redisson: RedissonWriteLock.forceUnlockAsync. Differs: can be asked for one owner; nested read holds stay.
local lock, writers, turn = KEYS[1], KEYS[2], KEYS[3]
local owner = ARGV[3]
local mode = mode_of(lock)
if type(mode) == 'table' then return {4, nonce, now, mode.err} end
if mode ~= 'write' then return {0, nonce, now} end
local writer = writer_of(lock, owner)
if writer == true then return {4, nonce, now, 'its hash has too many fields'} end
if not writer then return {0, nonce, now} end
return {1, nonce, now, end_write(lock, writer, writers, turn), writer}

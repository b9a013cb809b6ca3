-- write/force.lua: end the write hold, whoever has it, or only one owner's. Read holds are left alone.
-- KEYS[1] lock     hash    mode -> read or write, reader -> count, writer:write -> count
-- KEYS[2] channel
-- KEYS[3] writers  zset    lockson writers that wait -> server time until which they do
-- KEYS[4] turn     string  while it lives, readers may pass waiting writers
-- ARGV[3] owner:write, empty for anybody
-- Derives {lock}:reader:rwlock_timeout:i, as Redisson does.
-- Returns {1, nonce, now, receivers, owner} ended, and whose; {0, nonce, now} nothing was held, or not by this owner;
--   {4, nonce, now, error} another type.
-- Redisson: RedissonWriteLock.forceUnlockAsync. Differs: can be asked for one owner; nested read holds stay.
local lock, channel, writers, turn = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local owner = ARGV[3]
local mode = redis.pcall('HGET', lock, 'mode')
if type(mode) == 'table' then return {4, nonce, now, mode.err} end
if mode ~= 'write' then return {0, nonce, now} end
-- A write hold has only the read holds of its own owner beside it.
if redis.call('HLEN', lock) > MOST_READERS then return {4, nonce, now, 'its hash has too many fields'} end
local fields = redis.call('HGETALL', lock)
for at = 1, #fields, 2 do
  local field = fields[at]
  if (owner == '' or field == owner) and is_writer(field) then
    redis.call('HDEL', lock, field)
    return {1, nonce, now, after_writer(lock, channel, writers, turn), field}
  end
end
return {0, nonce, now}

-- write/inspect.lua: who writes. Writes nothing.
-- KEYS[1] lock  hash  mode -> read or write, reader -> count, writer:write -> count
-- Derives {lock}:reader:rwlock_timeout:i, as Redisson does.
-- Returns {1, nonce, now, ttl_ms, owner, count} held; {0, nonce, now} by nobody; {4, nonce, now, error} another type.
-- Redisson: writeLock().isLocked, getHoldCount, remainTimeToLive, in one.
local lock = KEYS[1]
local mode = redis.pcall('HGET', lock, 'mode')
if type(mode) == 'table' then return {4, nonce, now, mode.err} end
if mode ~= 'write' then return {0, nonce, now} end
-- A write hold has only the read holds of its own owner beside it.
if redis.call('HLEN', lock) > MOST_READERS then return {4, nonce, now, 'its hash has too many fields'} end
local fields = redis.call('HGETALL', lock)
for at = 1, #fields, 2 do
  if is_writer(fields[at]) then
    return {1, nonce, now, redis.call('PTTL', lock), fields[at], fields[at + 1]}
  end
end
return {0, nonce, now}

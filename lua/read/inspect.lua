-- read/inspect.lua: who reads. Writes nothing.
-- KEYS[1] lock  hash  mode -> read or write, reader -> count, writer:write -> count
-- ARGV[3] owner, empty for everybody
-- Derives {lock}:owner:rwlock_timeout:i, as Redisson does.
-- Returns {1, nonce, now, ttl_ms, owner1, count1 ..} held; {0, nonce, now} by nobody; {4, nonce, now, error} another
--   type.
-- Redisson: readLock().isLocked, getHoldCount, remainTimeToLive, in one. Differs: readers whose leases ended do not
--   count.
local lock = KEYS[1]
local owner = ARGV[3]
local mode = redis.pcall('HGET', lock, 'mode')
if type(mode) == 'table' then return {4, nonce, now, mode.err} end
if not mode then return {0, nonce, now} end
local fields = {owner, redis.call('HGET', lock, owner)}
if owner == '' then fields = redis.call('HGETALL', lock) end
local reply = {1, nonce, now, redis.call('PTTL', lock)}
for at = 1, #fields, 2 do
  if is_reader(lock, fields[at], fields[at + 1]) then
    reply[#reply + 1] = fields[at]
    reply[#reply + 1] = fields[at + 1]
  end
end
if #reply == 4 then return {0, nonce, now} end
return reply

-- read/force.lua: end all read holds, or only one owner's. A write hold, and what is nested in it, is left alone.
-- KEYS[1] lock  hash  mode -> read or write, reader -> count, writer:write -> count
-- KEYS[2] channel
-- ARGV[3] owner, empty for everybody
-- Derives {lock}:owner:rwlock_timeout:i, as Redisson does.
-- Returns {1, nonce, now, receivers, owner ..} ended, and whose; {0, nonce, now} nothing was held, or not by this owner;
--   {4, nonce, now, error} another type.
-- Redisson: RedissonReadLock.forceUnlockAsync. Differs: can be asked for one owner; leaves no key of a hold behind.
local lock, channel = KEYS[1], KEYS[2]
local owner = ARGV[3]
local mode = redis.pcall('HGET', lock, 'mode')
if type(mode) == 'table' then return {4, nonce, now, mode.err} end
if mode ~= 'read' then return {0, nonce, now} end
local fields = {owner, redis.call('HGET', lock, owner)}
if owner == '' then fields = redis.call('HGETALL', lock) end
local reply = {1, nonce, now, -1}
for at = 1, #fields, 2 do
  if is_reader(lock, fields[at], fields[at + 1]) then
    drop_reader(lock, fields[at], fields[at + 1])
    reply[#reply + 1] = fields[at]
  end
end
if #reply == 4 then return {0, nonce, now} end
reply[4] = after_reader(lock, channel)
return reply

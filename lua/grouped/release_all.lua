-- grouped/release_all.lua: give the only hold of each of these values of groups back.
-- KEYS[i] group of hold i  hash  as in grouped/begin.lua
-- ARGV[3i] value of hold i  ARGV[3i + 1] owner of hold i  ARGV[3i + 2] channel of its group
-- Announces as announce.lua, each on its group's channel.
-- Returns {1, nonce, now, v1 .. vn}: the receivers of the message (-1 where it is refused) given back; `-` it is not held just
--   once, or refused: nothing was done.
-- Redisson: RedissonFasterMultiLock.unlockInnerAsync. Differs: what is not held keeps no other from being given back.
local reply = {1, nonce, now}
for i, group in ipairs(KEYS) do
  local value, owner = ARGV[3 * i], ARGV[3 * i + 1]
  local expiry, count = value .. ':' .. owner .. ':expire_time', value .. ':' .. owner .. ':lock_count'
  local is_held = redis.pcall('HGET', group, value) == owner and redis.call('HGET', group, count) == '1'
  reply[i + 3] = '-'
  if is_held and tonumber(redis.call('HGET', group, expiry) or 0) > now and type(redis.pcall('HDEL', group, value, expiry, count)) == 'number' then
    channel = ARGV[3 * i + 2]
    reply[i + 3] = announce('0')
  end
end
return reply

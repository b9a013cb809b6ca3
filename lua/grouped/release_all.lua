-- grouped/release_all.lua: give the only hold of each of these values of groups back.
-- KEYS[i] group of hold i  hash  as in grouped/begin.lua
-- ARGV[3i] value of hold i  ARGV[3i + 1] owner of hold i  ARGV[3i + 2] channel of its group
-- Announces as announce.lua, each on its group's channel, ten of a group at most.
-- Returns {1, nonce, now, v1 .. vn}: the receivers of the message (-1 where it is refused) given back; `-` it is not held just
--   once, or refused: nothing was done.
-- Redisson: RedissonFasterMultiLock.unlockInnerAsync. Differs: what is not held keeps no other from being given back.
local reply, told, heard = {1, nonce, now}, {}, {}
for i, group in ipairs(KEYS) do
  local value, owner = ARGV[3 * i], ARGV[3 * i + 1]
  local is_held = redis.pcall('HGET', group, value) == owner and redis.call('HGET', group, count_of(value, owner)) == '1'
  reply[i + 3] = '-'
  if is_held and left_of(redis.call('HGET', group, until_of(value, owner))) > 0 and type(redis.pcall('HDEL', group, value, until_of(value, owner), count_of(value, owner))) == 'number' then
    channel = ARGV[3 * i + 2]
    told[channel] = (told[channel] or 0) + 1
    -- One wakes all who wait by lockson, and one of each process of Java's: ten of those, as the server has work with each.
    if told[channel] <= 10 then heard[channel] = announce('0') end
    reply[i + 3] = heard[channel]
  end
end
return reply

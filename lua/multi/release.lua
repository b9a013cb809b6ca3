-- multi/release.lua: give the only hold of each of these locks back.
-- KEYS[i] lock  hash  owner -> hold count
-- ARGV[2i + 1] owner of hold i  ARGV[2i + 2] channel of lock i
-- Announces as announce.lua, each on its own channel.
-- Returns {1, nonce, now, v1 .. vn}: the receivers of the message (-1 where it is refused) given back; `-` it is not held just
--   once, or refused: nothing was done.
-- Redisson: has none for locks of several names.
local reply = {1, nonce, now}
for i, lock in ipairs(KEYS) do
  local owner = ARGV[2 * i + 1]
  reply[i + 3] = '-'
  if redis.pcall('HGET', lock, owner) == '1' and redis.pcall('HDEL', lock, owner) == 1 then
    channel = ARGV[2 * i + 2]
    reply[i + 3] = announce('0')
  end
end
return reply

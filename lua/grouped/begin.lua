-- grouped/begin.lua: stands before the scripts of one value of a group, which has all its values in one hash.
-- KEYS[1] group  hash  value -> owner, value:owner:expire_time -> ms, value:owner:lock_count -> hold count
-- ARGV[3] value
-- Redisson: RedissonFasterMultiLock. Differs: the time is the server's, not a client's.
local group, value = KEYS[1], ARGV[3]
local function until_of(owner) return value .. ':' .. owner .. ':expire_time' end
local function count_of(owner) return value .. ':' .. owner .. ':lock_count' end
-- Who has it, how often, as a text, and for how many ms yet: the key itself may end before. Whose time is over has nothing:
-- then `gone` is its owner. The last is an error, of a key of another type.
local function look()
  local owner = redis.pcall('HGET', group, value)
  if type(owner) == 'table' then return nil, nil, 0, nil, owner.err end
  if not owner then return nil, nil, 0 end
  local left, ttl = tonumber(redis.call('HGET', group, until_of(owner)) or 0) - now, redis.call('PTTL', group)
  if ttl >= 0 then left = math.min(left, ttl) end
  if left <= 0 then return nil, nil, 0, owner end
  return owner, redis.call('HGET', group, count_of(owner)) or '', left
end
local function remove(owner) redis.call('HDEL', group, value, until_of(owner), count_of(owner)) end
-- What the value's hold has from now on; the group lives no shorter. Returns an error, if it is refused: then nothing is
-- done, but that the group may live for longer.
local function put(owner, count, left)
  local ttl, expiry = redis.call('PTTL', group), string.format('%.0f', now + left)
  local set = ttl ~= -2 and ttl < left and redis.pcall('PEXPIRE', group, left)
  if type(set) == 'table' then return set.err end
  set = redis.pcall('HSET', group, value, owner, until_of(owner), expiry, count_of(owner), count)
  if type(set) == 'number' and ttl == -2 then
    set = redis.pcall('PEXPIRE', group, left)
    if type(set) == 'table' then remove(owner) end
  end
  return type(set) == 'table' and set.err or nil
end

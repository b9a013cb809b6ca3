-- grouped/hold.lua: stands before the scripts of groups: what the hold of a value has in the hash of its group.
-- Redisson: RedissonFasterMultiLock's fields.
local function until_of(value, owner) return value .. ':' .. owner .. ':expire_time' end
local function count_of(value, owner) return value .. ':' .. owner .. ':lock_count' end
-- For how many ms yet a hold lasts whose end is stored as this; over is not above 0, and so is what is no number.
local function left_of(expiry)
  local left = (tonumber(expiry or '') or 0) - now
  return left == left and left or 0
end
local function remove(group, value, owner) return redis.call('HDEL', group, value, until_of(value, owner), count_of(value, owner)) end
-- What a hold that is over has beside its value, which stays: whose slot moves must not find the hash gone meanwhile.
local function forget(group, value, owner) redis.call('HDEL', group, until_of(value, owner), count_of(value, owner)) end
-- What the value's hold has from now on, and had before (nothing, where there is no `expiry`); the group lives no shorter.
-- Returns an error, if it is refused: then all is as it was.
local function put(group, value, owner, count, left, found, expiry)
  local ttl = redis.call('PTTL', group)
  local set = redis.pcall('HSET', group, value, owner, until_of(value, owner), string.format('%.0f', now + left), count_of(value, owner), count)
  if type(set) == 'table' then return set.err end
  if ttl >= left then return nil end
  set = redis.pcall('PEXPIRE', group, left)
  if type(set) ~= 'table' then return nil end
  if expiry then redis.call('HSET', group, until_of(value, owner), expiry, count_of(value, owner), found) else remove(group, value, owner) end
  return set.err
end

-- grouped/begin.lua: stands before the scripts of one value of a group, which has all its values in one hash.
-- KEYS[1] group  hash  value -> owner, value:owner:expire_time -> ms, value:owner:lock_count -> hold count
-- ARGV[3] value
-- Redisson: RedissonFasterMultiLock. Differs: the time is the server's, not a client's.
local group, value = KEYS[1], ARGV[3]
local function until_of(owner) return value .. ':' .. owner .. ':expire_time' end
local function count_of(owner) return value .. ':' .. owner .. ':lock_count' end
-- Who has it, how often, as a text, for how many ms yet: the key itself may end before. Whose time is over has nothing: then
-- `gone` is its owner. Then an error, of a key of another type; and the end of its lease, as it is stored.
local function look()
  local owner = redis.pcall('HGET', group, value)
  if type(owner) == 'table' then return nil, nil, 0, nil, owner.err end
  if not owner then return nil, nil, 0 end
  local expiry, ttl = redis.call('HGET', group, until_of(owner)), redis.call('PTTL', group)
  local left = tonumber(expiry or 0) - now
  if ttl >= 0 then left = math.min(left, ttl) end
  if left <= 0 then return nil, nil, 0, owner end
  return owner, redis.call('HGET', group, count_of(owner)) or '', left, nil, nil, expiry
end
local function remove(owner) redis.call('HDEL', group, value, until_of(owner), count_of(owner)) end
-- What the value's hold has from now on, and had before (nothing, where there is no `expiry`); the group lives no shorter.
-- Returns an error, if it is refused: then all is as it was.
local function put(owner, count, left, found, expiry)
  local ttl = redis.call('PTTL', group)
  local set = redis.pcall('HSET', group, value, owner, until_of(owner), string.format('%.0f', now + left), count_of(owner), count)
  if type(set) == 'table' then return set.err end
  if ttl >= left then return nil end
  set = redis.pcall('PEXPIRE', group, left)
  if type(set) ~= 'table' then return nil end
  if expiry then redis.call('HSET', group, until_of(owner), expiry, count_of(owner), found) else remove(owner) end
  return set.err
end

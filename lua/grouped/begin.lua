-- grouped/begin.lua: stands behind grouped/hold.lua before the scripts of one value of a group, which has all its values in one
--   hash.
-- KEYS[1] group  hash  value -> owner, value:owner:expire_time -> ms, value:owner:lock_count -> hold count
-- ARGV[3] value
-- Redisson: RedissonFasterMultiLock. Differs: the time is the server's, not a client's.
local group, value = KEYS[1], ARGV[3]
-- Who has it, how often, as a text, for how many ms yet: the key itself may end before. Whose time is over has nothing: then
-- `gone` is its owner. Then an error, of a key of another type; and the end of its lease, as it is stored.
local function look()
  local owner = redis.pcall('HGET', group, value)
  if type(owner) == 'table' then return nil, nil, 0, nil, owner.err end
  if not owner then return nil, nil, 0 end
  local expiry, ttl = redis.call('HGET', group, until_of(value, owner)), redis.call('PTTL', group)
  local left = left_of(expiry)
  if ttl >= 0 then left = math.min(left, ttl) end
  if left <= 0 then return nil, nil, 0, owner end
  return owner, redis.call('HGET', group, count_of(value, owner)) or '', left, nil, nil, expiry
end

-- read/renew.lua: lengthen the leases of many read holds. Creates nothing.
-- KEYS in pairs: KEYS[2i - 1] lock  hash  mode -> read or write, reader -> count, writer:write -> count; KEYS[2i] hold
--   string  the key of the first hold of owner i: of hold i
-- ARGV[2i + 1] owner of hold i  ARGV[2i + 2] lease_ms of hold i
-- Derives {lock}:owner:rwlock_timeout:i, as Redisson does.
-- Returns {1, nonce, now, v1 .. vn}: 1 renewed, 0 not held by this owner.
-- Redisson: ReadLockTask.renew. Differs: as reentrant/renew.lua; a reader whose leases ended is not renewed.
local reply = {1, nonce, now}
-- At most 100 holds, each of five elements: its field and key, the hash, its mode and write_end.
local left = 5 * (100 - #KEYS / 2)
for i = 1, #KEYS / 2 do
  local lock, hold = KEYS[2 * i - 1], KEYS[2 * i]
  local owner, lease = ARGV[2 * i + 1], tonumber(ARGV[2 * i + 2])
  local found, renewed = redis.pcall('HGET', lock, owner), 0
  if type(found) == 'string' and redis.call('EXISTS', hold) == 1 then
    renewed = 1
    -- Long enough, it writes all the same, for a replica to confirm. The first is enough, as it has the longest lease; the
    -- others are for Java's eyes.
    redis.call('PEXPIRE', hold, math.max(redis.call('PTTL', hold), lease))
    local others = hold_keys(lock, owner, 2, math.min(tonumber(found) or 0, left + 1))
    for _, key in ipairs(others) do lengthen(key, lease) end
    left = left - #others
    keep_hash(lock, lease)
  end
  reply[i + 3] = renewed
end
return reply

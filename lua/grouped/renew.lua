-- grouped/renew.lua: lengthen the leases of many values, of any groups. Creates nothing.
-- KEYS[i] group of hold i  hash  as in grouped/begin.lua
-- ARGV[2 + i] value of hold i; behind all of these ARGV[count + 2i + 1] owner of hold i  ARGV[count + 2i + 2] lease_ms of it
-- Returns {1, nonce, now, v1 .. vn}: 1 renewed, 0 not held by this owner.
-- Redisson: FastMultilockTask. Differs: many groups in one script, each hold has a lease of its own, which only grows.
local reply, count = {1, nonce, now}, #KEYS
for i, group in ipairs(KEYS) do
  local value, owner, lease = ARGV[2 + i], ARGV[count + 2 * i + 1], tonumber(ARGV[count + 2 * i + 2])
  local expiry = until_of(value, owner)
  local left = redis.pcall('HGET', group, value) == owner and left_of(redis.call('HGET', group, expiry)) or 0
  reply[i + 3] = 0
  if left > 0 then
    reply[i + 3] = 1
    local ttl = redis.call('PTTL', group)
    -- Long enough, it writes all the same, for a replica to confirm; and first, as no memory limit refuses it.
    redis.call('PEXPIRE', group, math.max(ttl, lease))
    redis.call('HSET', group, expiry, string.format('%.0f', now + math.max(left, lease)))
  end
end
return reply

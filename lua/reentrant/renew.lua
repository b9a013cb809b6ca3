-- reentrant/renew.lua: lengthen the leases of many holds. Creates nothing.
-- KEYS[i] lock  hash  owner -> hold count
-- ARGV[2i + 1] owner of hold i  ARGV[2i + 2] lease_ms of hold i
-- Returns {1, nonce, now, v1 .. vn}: 1 renewed, 0 not held by this owner.
-- Redisson: LockTask.renew. Differs: each hold has a lease of its own; a key of another type keeps no other hold from being
--   renewed; the TTL only grows.
local reply = {1, nonce, now}
for i, lock in ipairs(KEYS) do
  local owner, lease = ARGV[2 * i + 1], ARGV[2 * i + 2]
  local renewed = 0
  if redis.pcall('HEXISTS', lock, owner) == 1 then
    renewed = 1
    -- Long enough, it writes all the same, for a replica to confirm.
    if redis.call('PEXPIRE', lock, lease, 'GT') == 0 then
      redis.call('PEXPIRE', lock, math.max(redis.call('PTTL', lock), tonumber(lease)))
    end
  end
  reply[i + 3] = renewed
end
return reply

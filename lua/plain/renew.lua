-- plain/renew.lua: lengthen the leases of many holds. Creates nothing.
-- KEYS[i] lock  string  the token of hold i
-- ARGV[2i + 1] token of hold i  ARGV[2i + 2] lease_ms of hold i
-- Returns {1, nonce, now, v1 .. vn}: 1 renewed, 0 not held.
-- Redisson: has none.
local reply = {1, nonce, now}
for i, lock in ipairs(KEYS) do
  local token, lease = ARGV[2 * i + 1], ARGV[2 * i + 2]
  local renewed = 0
  if redis.pcall('GET', lock) == token then
    renewed = 1
    -- Long enough, it writes all the same, for a replica to confirm.
    if redis.call('PEXPIRE', lock, lease, 'GT') == 0 then
      redis.call('PEXPIRE', lock, math.max(redis.call('PTTL', lock), tonumber(lease)))
    end
  end
  reply[i + 3] = renewed
end
return reply

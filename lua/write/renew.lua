-- write/renew.lua: lengthen the leases of many write holds. Creates nothing.
-- KEYS[i] lock  hash  mode -> read or write, reader -> count, writer:write -> count
-- ARGV[2i + 1] owner:write of hold i  ARGV[2i + 2] lease_ms of hold i
-- Returns {1, nonce, now, v1 .. vn}: 1 renewed, 0 not held by this owner.
-- Redisson: LockTask.renew. Differs: as reentrant/renew.lua; the lease of a nested read hold is not its own.
local reply = {1, nonce, now}
for i, lock in ipairs(KEYS) do
  local owner, lease = ARGV[2 * i + 1], tonumber(ARGV[2 * i + 2])
  local renewed = 0
  if redis.pcall('HEXISTS', lock, owner) == 1 and not is_write_over(lock) then
    renewed = 1
    keep_write(lock, lease)
  end
  reply[i + 3] = renewed
end
return reply

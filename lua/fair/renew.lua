-- fair/renew.lua: lengthen the leases of many holds, and keep Java from dropping the heads of their queues. Creates nothing.
-- KEYS in threes: KEYS[3i - 2] lock  hash, KEYS[3i - 1] queue  list, KEYS[3i] timeouts  zset: of hold i, as in fair/begin.lua
-- ARGV[2i + 1] owner of hold i  ARGV[2i + 2] lease_ms of hold i
-- Returns {1, nonce, now, v1 .. vn}: 1 renewed, 0 not held by this owner.
-- Redisson: FairLock's renewal is the plain lock's. Differs: as reentrant/renew.lua; there living waiters are dropped during a
--   long hold.
local reply = {1, nonce, now}
for i = 1, #KEYS / 3 do
  local lock, queue, timeouts = KEYS[3 * i - 2], KEYS[3 * i - 1], KEYS[3 * i]
  local owner, lease = ARGV[2 * i + 1], tonumber(ARGV[2 * i + 2])
  local renewed = 0
  if redis.pcall('HEXISTS', lock, owner) == 1 then
    renewed = 1
    -- Long enough, it writes all the same, for a replica to confirm.
    redis.call('PEXPIRE', lock, math.max(redis.call('PTTL', lock), lease))
    local head = redis.pcall('LINDEX', queue, '0')
    local score = type(head) == 'string' and redis.pcall('ZSCORE', timeouts, head)
    local floor = now + math.max(300000, lease)
    if type(score) == 'string' and tonumber(score) < floor then redis.pcall('ZADD', timeouts, floor, head) end
  end
  reply[i + 3] = renewed
end
return reply

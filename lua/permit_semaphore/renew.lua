-- permit_semaphore/renew.lua: lengthen the leases of many guards' permits. Creates nothing.
-- KEYS[i] expiries  zset  permit -> epoch milliseconds
-- ARGV[2i + 1] ids of guard i  ARGV[2i + 2] lease_ms of guard i
-- Returns {1, nonce, now, v1 .. vn}: 1 renewed, 0 not all of them are there any more.
-- Redisson: has none; a lease there is renewed by hand.
local reply = {1, nonce, now}
for i, expiries in ipairs(KEYS) do
  local ids = raw_ids(ARGV[2 * i + 1])
  local renewed = 0
  local all, _, first
  if type(redis.pcall('ZCARD', expiries)) == 'number' then all, _, first = live(expiries, ids) end
  if all then
    renewed = 1
    -- Long enough, it writes all the same, for a replica to confirm.
    set_expiry(expiries, 'GT', math.max(now + ARGV[2 * i + 2], first + 1), ids)
  end
  reply[i + 3] = renewed
end
return reply

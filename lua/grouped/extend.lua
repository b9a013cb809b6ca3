-- grouped/extend.lua: set the lease of a value's hold exactly, or (lease 0) only look whether it is still there.
-- KEYS as grouped/begin.lua
-- ARGV[3] value  ARGV[4] owner  ARGV[5] lease_ms, 0 to leave it
-- Returns {1, nonce, now, left_ms} held; {3, nonce, now} not held; {4, nonce, now, error} another type;
--   {6, nonce, now, error} refused.
-- Redisson: has none for a holder.
local owner, lease = ARGV[4], tonumber(ARGV[5])
local holder, found, left, gone, wrong, expiry = look()
if wrong then return {4, nonce, now, wrong} end
if holder ~= owner then return {3, nonce, now} end
if lease > 0 then
  -- First a write that no memory limit refuses, of a field that nobody has: then HSET is let through too.
  redis.call('HDEL', group, '')
  local refused = put(group, value, owner, found, lease, found, expiry)
  if refused then return {6, nonce, now, refused} end
  left = lease
end
return {1, nonce, now, left}

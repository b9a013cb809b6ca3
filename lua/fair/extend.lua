-- fair/extend.lua: set the lease of a hold exactly, or (lease 0) only look whether it is still there; and keep Java from
--   dropping the head of the queue meanwhile.
-- KEYS as fair/begin.lua
-- ARGV[3] owner  ARGV[4] lease_ms, 0 to leave it
-- Returns as reentrant/extend.lua.
-- Redisson: has none for a holder.
local owner, lease = ARGV[3], tonumber(ARGV[4])
local held = redis.pcall('HEXISTS', lock, owner)
if type(held) == 'table' then return {4, nonce, now, held.err} end
if held == 0 then return {3, nonce, now} end
if lease > 0 then
  redis.call('PEXPIRE', lock, lease)
  -- The hold is extended, whatever becomes of the queue.
  pcall(raise_head, lease)
end
return {1, nonce, now, redis.call('PTTL', lock)}

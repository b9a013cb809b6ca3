-- permit_semaphore/extend.lua: set the lease of permits exactly, or (lease 0) only look whether they are still there.
-- KEYS[1] expiries  zset  permit -> epoch milliseconds
-- ARGV[3] ids  ARGV[4] lease_ms, 0 to leave it
-- Returns {1, nonce, now, ms} what is left of the shortest lease; {3, nonce, now} not all are there; {4, nonce, now, error}
--   another type.
-- Redisson: RedissonPermitExpirableSemaphore.updateLeaseTimeAsync, getLeaseTimeAsync, for many.
local expiries = KEYS[1]
local ids, lease = raw_ids(ARGV[3]), tonumber(ARGV[4])
local held = redis.pcall('ZCARD', expiries)
if type(held) == 'table' then return {4, nonce, now, held.err} end
local all, _, first = live(expiries, ids)
if not all then return {3, nonce, now} end
if lease == 0 then return {1, nonce, now, first - now} end
set_expiry(expiries, 'CH', now + lease, ids)
return {1, nonce, now, lease}

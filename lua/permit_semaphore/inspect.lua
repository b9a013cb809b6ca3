-- permit_semaphore/inspect.lua: how many permits are free, and how many are held. Writes nothing.
-- KEYS[1] permits  string  how many are free
-- KEYS[2] expiries  zset  permit -> epoch milliseconds
-- Returns {1, nonce, now, free, held}; {0, nonce, now} there is no such semaphore; {4, nonce, now, error} another type.
-- Redisson: RedissonPermitExpirableSemaphore.availablePermitsAsync, acquiredPermitsAsync. Differs: frees nothing, but counts what has
--   expired as free.
local permits, expiries = KEYS[1], KEYS[2]
local found = redis.pcall('GET', permits)
if type(found) == 'table' then return {4, nonce, now, found.err} end
local expired = redis.pcall('ZCOUNT', expiries, '-inf', string.format('%.0f', now))
if type(expired) == 'table' then return {4, nonce, now, expired.err} end
if not found then return {0, nonce, now} end
if not is_whole(found) then return {4, nonce, now, 'its value is no number'} end
return {1, nonce, now, string.format('%.0f', found + expired), redis.call('ZCARD', expiries) - expired}

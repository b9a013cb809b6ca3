-- semaphore/inspect.lua: how many permits are free. Writes nothing.
-- KEYS[1] permits  string  how many are free
-- Returns {1, nonce, now, free}; {0, nonce, now} there is no such semaphore; {4, nonce, now, error} another type.
-- Redisson: RedissonSemaphore.availablePermitsAsync.
local permits = KEYS[1]
local found = redis.pcall('GET', permits)
if type(found) == 'table' then return {4, nonce, now, found.err} end
if not found then return {0, nonce, now} end
if not is_whole(found) then return {4, nonce, now, 'its value is no number'} end
return {1, nonce, now, found}

-- latch/inspect.lua: the count, and how the last latch of this name ended. Writes nothing.
-- KEYS[1] latch  string  the count
-- KEYS[2] ended  string  when and how the last latch of this name ended
-- Returns {1, nonce, now, count, ended} (0 and an empty text for none); {4, nonce, now, error} another type.
-- Redisson: RedissonCountDownLatch.getCountAsync.
local latch, ended = KEYS[1], KEYS[2]
local found = redis.pcall('GET', latch)
if type(found) == 'table' then return {4, nonce, now, found.err} end
if found and not is_whole(found) then return {4, nonce, now, 'its value is no number'} end
return {1, nonce, now, found or '0', redis.call('GET', ended) or ''}

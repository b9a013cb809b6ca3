-- reentrant/inspect.lua: who holds it. Writes nothing.
-- KEYS[1] lock  hash  owner -> hold count
-- Returns {1, nonce, now, ttl_ms, owner, count} held; {0, nonce, now} free; {4, nonce, now, error} another type.
-- Redisson: isLocked, getHoldCount, remainTimeToLive, in one.
local lock = KEYS[1]
-- Not HGETALL: it may be a read/write lock with any number of readers.
local page = redis.pcall('HSCAN', lock, 0, 'COUNT', 1)
if page.err then return {4, nonce, now, page.err} end
while not page[2][1] do
  if page[1] == '0' then return {0, nonce, now} end
  page = redis.call('HSCAN', lock, page[1], 'COUNT', 1)
end
return {1, nonce, now, redis.call('PTTL', lock), page[2][1], page[2][2]}

-- fair/release.lua: give one hold back. Moves the owner's count from n to n - 1, once.
-- KEYS as fair/begin.lua
-- ARGV[3] owner  ARGV[4] lease_ms  ARGV[5] n
-- Returns as reentrant/release.lua; the receivers are those of the message to the head of the queue.
-- Redisson: RedissonFairLock.unlockInnerAsync. Differs: as reentrant/release.lua; who holds nothing any more is told so.
local owner, lease, n = ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
local found = redis.pcall('HGET', lock, owner)
if type(found) == 'table' then return {4, nonce, now, found.err} end
local count = tonumber(found or 0)
if found == false then
  tell_if_free()
  return {3, nonce, now}
end
if count ~= n and count ~= n - 1 then return {5, nonce, now, found} end
if count == n and n == 1 then
  redis.call('HDEL', lock, owner)
  return {1, nonce, now, wake()}
end
if redis.call('PTTL', lock) < lease then redis.call('PEXPIRE', lock, lease) end
if count == n then
  -- First a write that no memory limit refuses: then HINCRBY is let through too.
  redis.call('PEXPIRE', lock, redis.call('PTTL', lock))
  redis.call('HINCRBY', lock, owner, -1)
end
return {1, nonce, now, -1}

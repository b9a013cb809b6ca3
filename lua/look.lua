-- look.lua: say which of many locks may be had: those who wait for them have slept for a while, and no message came.
-- KEYS[i] lock i  any type
-- ARGV[3] soon_ms: of a lease that ends before that is told, too
-- Returns {1, nonce, now, i ..}: their places among KEYS.
-- Redisson: has nothing like it.
local soon = tonumber(ARGV[3])
local reply = {1, nonce, now}
for i, lock in ipairs(KEYS) do
  local ttl = redis.call('PTTL', lock)
  if ttl ~= -1 and ttl < soon then reply[#reply + 1] = i end
end
return reply

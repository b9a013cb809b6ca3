-- fair/refresh.lua: say that many waiters of one process are still there, so that nobody drops them as dead.
-- KEYS as fair/begin.lua
-- ARGV[i] owner of each, for i from 3 on
-- Returns {1, nonce, now, v1 .. vn}: 1 queued, 0 not; {4, nonce, now, error} another type.
-- Redisson: has none: there a waiter's score runs out, and it is dropped though it still waits.
local wrong = redis.pcall('ZCARD', timeouts)
if type(wrong) == 'table' then return {4, nonce, now, wrong.err} end
local reply, there, client = {1, nonce, now}, {}
for i = 3, #ARGV do
  local owner = ARGV[i]
  local score = redis.call('ZSCORE', timeouts, owner)
  reply[i + 1] = 0
  if score then
    refresh(owner, score, redis.call('ZSCORE', seen, owner))
    client = client_of(owner)
    there[#there + 1] = now
    there[#there + 1] = owner
    reply[i + 1] = 1
  end
end
if client then redis.call('ZADD', seen, now, client, unpack(there)) end
-- Those that Java dropped, some at each call.
local old = redis.call('ZRANGE', seen, '-inf', now - KEPT, 'BYSCORE', 'LIMIT', 0, 25)
if old[1] then redis.call('ZREM', seen, unpack(old)) end
if redis.call('EXISTS', lock) == 1 then raise_head(0) end
keep()
return reply

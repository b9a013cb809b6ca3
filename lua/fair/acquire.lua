-- fair/acquire.lua: take the lock if this owner is the next, or enter it once more. Moves the count from n to n + 1, once.
-- KEYS as fair/begin.lua
-- ARGV[3] owner  ARGV[4] lease_ms  ARGV[5] n  ARGV[6] 1: takes its place in the queue when it has to wait
-- Returns as reentrant/acquire.lua; busy: {0, nonce, now, ms, score}: in `ms` more may be known, and its score if it is queued.
-- Redisson: RedissonFairLock.tryLockInnerAsync. Differs: as reentrant/acquire.lua; the server's time; a waiter is dropped when
--   it is dead, not when its score has passed; the scores of all are not touched at each acquisition, but a debt is kept.
local owner, lease, n, queues = ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6] == '1'
local found = redis.pcall('HGET', lock, owner)
local score = redis.pcall('ZSCORE', timeouts, owner)
local last = redis.pcall('ZSCORE', seen, owner)
local debt = redis.pcall('HGET', state, 'debt')
local head = redis.pcall('LINDEX', queue, 0)
for _, read in ipairs({found, score, last, debt, head}) do
  if type(read) == 'table' then return {4, nonce, now, read.err} end
end
local count = tonumber(found or 0)
local ttl = redis.call('PTTL', lock)
if found == false then
  if n > 0 then return {3, nonce, now} end
  local left = ttl
  if ttl == -2 then head, left = front(owner) end
  if ttl ~= -2 or (head and head ~= owner) then
    if not queues then return {0, nonce, now, left} end
    if score then score = refresh(owner, score, last) else score = join(owner, ttl) end
    if ttl ~= -2 then
      raise_head(0)
      redis.call('HDEL', state, 'head')
    end
    keep()
    return {0, nonce, now, left, score}
  end
elseif count ~= n and count ~= n + 1 then
  return {5, nonce, now, found}
end
if count == n then redis.call('HINCRBY', lock, owner, '1') end
if ttl < lease then
  local set = redis.pcall('PEXPIRE', lock, ARGV[4])
  if type(set) == 'table' then
    if count == n then redis.call('HINCRBY', lock, owner, -1) end
    if n == 0 then redis.call('HDEL', lock, owner) end
    return {6, nonce, now, set.err}
  end
end
if score then remove(owner) end
if found or redis.call('EXISTS', queue) == 0 then return {1, nonce, now} end
if score then
  -- Java would take 300 s off every score now. Here they are added up, and taken off in one pass of all, now and then.
  debt = (tonumber(debt or 0) or 0) + WAIT
  if debt > redis.call('LLEN', queue) * WAIT then
    for place, waiter in ipairs(redis.call('LRANGE', queue, 0, -1)) do
      local old = tonumber(redis.call('ZSCORE', timeouts, waiter)) or 0
      redis.call('ZADD', timeouts, math.max(old - debt, now + place * WAIT), waiter)
    end
    debt = 0
  end
  redis.call('HSET', state, 'debt', debt)
  redis.call('ZADD', seen, now, client_of(owner))
end
raise_head(lease)
redis.call('HDEL', state, 'head')
keep()
return {1, nonce, now}

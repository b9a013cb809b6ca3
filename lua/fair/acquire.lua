-- fair/acquire.lua: take the lock if this owner is the next, or enter it once more; else wait in the queue. Moves the count
--   from n to n + 1, once, as reentrant/acquire.lua does.
-- KEYS as fair/begin.lua
-- ARGV[3] owner  ARGV[4] lease_ms  ARGV[5] n  ARGV[6] 1: takes its place in the queue when it has to wait
-- Returns as reentrant/acquire.lua; busy: {0, nonce, now, ms, score, came}: to ask again in `ms`, or at once for -3, when more
--   waiters were dead than one call drops (rule 12); its score, if it is in the queue; came: 1 just now, 0 before.
-- Redisson: RedissonFairLock.tryLockInnerAsync. Differs: as reentrant/acquire.lua; the server's time; a waiter is dropped when
--   it is dead, not when its score has passed; an acquisition lowers no scores, but for a pass now and then.
local owner, lease, n, queues = ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6] == '1'
local found = redis.pcall('HGET', lock, owner)
local score = redis.pcall('ZSCORE', timeouts, owner)
local others = redis.pcall('ZCARD', seen)
local kept = redis.pcall('HMGET', state, 'kept', 'ends', 'head')
local head = redis.pcall('LINDEX', queue, '0')
for _, read in ipairs({found, score, others, kept, head}) do
  if type(read) == 'table' and read.err then return {4, nonce, now, read.err} end
end
local count = tonumber(found or 0)
local ttl = redis.call('PTTL', lock)
-- What has a mode is a read/write lock's, and this owner a reader of it.
if found and n == 0 and redis.call('HEXISTS', lock, 'mode') == 1 then found = false end
if found == false then
  if n > 0 then return {3, nonce, now} end
  local left = ttl
  if ttl == -2 then
    -- Who waits elsewhere looks too seldom for a state that ends as soon as that of those who queue.
    head, left = front(owner, head, queues and OWN or KEPT)
    if left == 0 then left = -3 end
  elseif kept[3] then
    redis.call('HDEL', state, 'head')
  end
  if ttl ~= -2 or (head and head ~= owner) then
    if not queues then return {0, nonce, now, left} end
    local came = score and 0 or 1
    if score then
      score = refresh(owner, score, redis.call('ZSCORE', seen, owner))
      redis.call('ZADD', seen, stamp, owner, stamp, client_of(owner))
    else
      score = join(owner, ttl)
    end
    if head and ttl ~= -2 then raise(head, 0) end
    keep_on(head and kept[1], kept[2], came == 1 and tonumber(score))
    return {0, nonce, now, left, score, came}
  end
elseif count ~= n and count ~= n + 1 then
  return {5, nonce, now, found}
end
if count == n then redis.call('HINCRBY', lock, owner, '1') end
-- Found done, it writes all the same, for a replica to confirm.
if ttl < lease or count ~= n then
  local set = redis.pcall('PEXPIRE', lock, ttl < lease and ARGV[4] or ttl)
  if type(set) == 'table' then
    if count == n then redis.call('HINCRBY', lock, owner, -1) end
    if n == 0 then redis.call('HDEL', lock, owner) end
    -- It is not in, but it lives: nobody may drop it as dead.
    if score then redis.pcall('ZADD', seen, 'XX', stamp, owner, stamp, client_of(owner)) end
    return {6, nonce, now, set.err}
  end
end
if score or head == owner then
  local waiting = remove(owner, head)
  if kept[3] then redis.call('HDEL', state, 'head') end
  if not found then served(waiting, redis.call('LINDEX', queue, '0'), lease) end
end
return {1, nonce, now}

-- fair/begin.lua: what the scripts of the fair lock share. Rule 17 of docs/PROTOCOL.md.
-- KEYS[1] lock      hash  owner -> hold count
-- KEYS[2] queue     list  owners that wait, the next one first
-- KEYS[3] timeouts  zset  owner -> epoch ms from which Java drops it when it is the head; each 300 s behind the one before
-- KEYS[4] seen      zset  owner, client -> epoch ms of its last call; lockson's waiters only
-- KEYS[5] state     hash  debt: ms that acquisitions have not taken off the scores yet; and the head of the free lock: head, since
--   (epoch ms of the first look at it), look (of the last), free (of the first look at any head since the lock is free), deaf
--   (since when nobody listens on its channel, or 0)
-- KEYS[6] channel   where an owner is told that it is its turn: <channel>:<owner>
local lock, queue, timeouts, seen, state, channel = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local WAIT, KEPT, OWN = 300000, 86400000, 60000
-- A head of the free lock is dropped when a lockson client is unseen for UNSEEN; when a foreign one leaves it for IGNORED, or
-- nobody listens on its channel twice, DEAF apart. It is told again after AGAIN.
local UNSEEN, IGNORED, DEAF, AGAIN = 3000, 5000, 1000, 400

local function client_of(owner)
  return string.match(owner, '^[^:]*')
end

local function tell(owner)
  local receivers = redis.pcall('PUBLISH', channel .. ':' .. owner, '0')
  if type(receivers) ~= 'number' then return -1 end
  return receivers
end

-- No score is lowered, but by the debt.
local function raise(owner, floor)
  local score = redis.pcall('ZSCORE', timeouts, owner)
  if type(score) ~= 'table' and (tonumber(score or 0) or 0) < floor then redis.pcall('ZADD', timeouts, floor, owner) end
end

-- Keeps Java from dropping whoever is next while the lock is held.
local function raise_head(lease)
  local head = redis.pcall('LINDEX', queue, 0)
  if type(head) == 'string' then raise(head, now + math.max(WAIT, lease)) end
end

-- The lock is free, since `free` if not since now: tells the head, and begins to watch it. Fails nothing.
local function wake(free)
  local head = redis.pcall('LINDEX', queue, 0)
  if type(head) ~= 'string' then return -1 end
  raise(head, now + WAIT)
  local receivers = tell(head)
  local deaf = 0
  if receivers == 0 then deaf = now end
  redis.pcall('HSET', state, 'head', head, 'since', now, 'look', now, 'free', free or now, 'deaf', deaf)
  if redis.pcall('PTTL', state) == -1 then redis.pcall('PEXPIRE', state, OWN) end
  return receivers
end

-- Queue and scores end a day after the last waiter can be there; what lockson keeps beside them soon after its last waiter,
-- as a Java client that empties the queue leaves it behind.
local function keep()
  local tail = redis.call('LINDEX', queue, -1)
  local score = tail and tonumber(redis.call('ZSCORE', timeouts, tail)) or now
  local ms = string.format('%.0f', math.max(score - now, 0) + KEPT)
  for _, key in ipairs({queue, timeouts}) do redis.pcall('PEXPIRE', key, ms) end
  for _, key in ipairs({seen, state}) do redis.pcall('PEXPIRE', key, OWN) end
end

-- Takes an owner out of the queue. Whether it was there, and was its head.
local function remove(owner)
  if redis.pcall('ZREM', timeouts, owner) ~= 1 then return false, false end
  redis.pcall('ZREM', seen, owner)
  local first = redis.pcall('LINDEX', queue, 0) == owner
  if first then redis.pcall('LPOP', queue) else redis.pcall('LREM', queue, 0, owner) end
  if redis.call('EXISTS', queue) == 0 then redis.call('DEL', timeouts, seen, state) end
  return true, first
end

-- A waiter is there: its score moves on with the time. `score` and `last` are what the sets have of it.
local function refresh(owner, score, last)
  local gone = now - (tonumber(last or now) or now)
  if gone > 0 then score = redis.call('ZINCRBY', timeouts, gone, owner) end
  redis.call('ZADD', seen, now, owner, now, client_of(owner))
  return score
end

-- A waiter arrives. The first write is one that a memory limit refuses.
local function join(owner, ttl)
  redis.call('ZADD', seen, now, owner, now, client_of(owner))
  local tail = redis.call('LINDEX', queue, -1)
  local score = now + math.max(WAIT, ttl)
  -- What is left of a queue that Java emptied.
  if not tail then redis.call('DEL', state) end
  if tail then score = math.max(tonumber(redis.call('ZSCORE', timeouts, tail)) or now, now) + WAIT end
  redis.call('ZADD', timeouts, score, owner)
  redis.call('RPUSH', queue, owner)
  return string.format('%.0f', score)
end

-- The head of the free lock, and the ms until it may be dropped. It is told; those that are dead are dropped, each once.
local function front(me)
  local free
  local head = redis.call('LINDEX', queue, 0)
  while head and head ~= me do
    local known = redis.call('HMGET', state, 'head', 'since', 'look', 'free', 'deaf')
    local look = tonumber(known[3] or 0) or 0
    local watched = known[1] == head and now - look <= UNSEEN
    local since, deaf = now, 0
    if watched then
      since, free, deaf = tonumber(known[2]) or now, tonumber(known[4]) or now, tonumber(known[5]) or 0
    end
    free = free or now
    -- Its whole client is silent, or only this waiter; a foreign one has its own limit.
    local left = since + IGNORED - now
    local client = redis.call('ZSCORE', seen, client_of(head))
    if client then
      local own = tonumber(redis.call('ZSCORE', seen, head) or 0)
      left = math.min(math.max(tonumber(client), free), math.max(own, since)) + UNSEEN - now
    end
    if left > 0 and not watched then
      wake(free)
    elseif left > 0 and now - look >= AGAIN then
      if tell(head) ~= 0 then
        deaf = 0
      elseif deaf == 0 then
        deaf = now
      elseif not client and now - deaf >= DEAF then
        left = 0
      end
      redis.call('HSET', state, 'look', now, 'deaf', deaf)
    end
    if left > 0 then return head, left end
    remove(head)
    head = redis.call('LINDEX', queue, 0)
  end
  return head, 0
end

-- fair/wait.lua: stands behind fair/begin.lua in the scripts of those who wait, or come to.
local KEPT, RECENT = 86400000, 20000
-- A head of the free lock is dropped when a lockson client is unseen for UNSEEN; when a foreign one leaves it for IGNORED, or
-- nobody listens on its channel twice, DEAF apart. It is told again after AGAIN.
local UNSEEN, IGNORED, DEAF, AGAIN = 3000, 5000, 1000, 400
-- In one call so many of the dead go. The next call goes on.
local DROPS = 100

local function client_of(owner)
  return string.match(owner, '^[^:]*')
end

-- A time on record; 0 where there is none, or where the clock has been set back since.
local function past(ms)
  ms = tonumber(ms or 0) or 0
  if ms > now then return 0 end
  return ms
end

-- Queue and scores end a day after the last waiter can be there; what lockson keeps beside them soon after its last waiter,
-- as a Java client that empties the queue leaves it behind.
local function keep()
  local tail = redis.call('LINDEX', queue, '-1')
  local score = tail and tonumber(redis.call('ZSCORE', timeouts, tail)) or now
  local ends = math.max(score, now) + KEPT
  for _, key in ipairs({queue, timeouts}) do redis.call('PEXPIRE', key, string.format('%.0f', ends - now)) end
  if tail then put(OWN, 'kept', now, 'ends', ends) end
  redis.call('PEXPIRE', seen, OWN)
end

-- As `keep`, but not again if that was done RECENT ago or less, and the queue lasts half a day longer than the new `score`, if
-- there is one. The keys are those of then: who makes one anew calls `keep`.
local function keep_on(at, ends, score)
  if past(at) + RECENT > now and (score or 0) + KEPT / 2 <= (tonumber(ends or 0) or 0) then return end
  keep()
end

-- A waiter is there: its score moves on with the time. `score` and `last` are what the sets have of it.
local function refresh(owner, score, last)
  local gone = now - (tonumber(last or now) or now)
  if gone <= 0 then return score end
  return redis.call('ZINCRBY', timeouts, gone, owner)
end

-- A waiter arrives. The first write is one that a memory limit refuses.
local function join(owner, ttl)
  if not redis.acl_check_cmd('PEXPIRE', queue, 1) then error({err = 'NOPERM no permission to PEXPIRE the queue'}, 0) end
  redis.call('ZADD', seen, stamp, owner, stamp, client_of(owner))
  local tail = redis.call('LINDEX', queue, '-1')
  local score = now + math.max(WAIT, ttl)
  if tail then
    local last = tonumber(redis.call('ZSCORE', timeouts, tail)) or 0
    score = math.max(score + redis.call('LLEN', queue) * WAIT, last + 1)
  else
    -- What is left of a queue that Java emptied.
    redis.call('UNLINK', state)
  end
  score = string.format('%.0f', score)
  redis.call('ZADD', timeouts, score, owner)
  redis.call('RPUSH', queue, owner)
  return score
end

-- For how many ms yet a head is not dead that was first looked at at `since`, with the lock free since `free`; and whether
-- it is foreign. What is dead may be its whole client, or only this waiter.
local clients = {}
local function left_to(head, since, free)
  local name = client_of(head)
  if clients[name] == nil then clients[name] = redis.call('ZSCORE', seen, name) end
  local client = clients[name]
  if not client then return since + IGNORED - now, true end
  local left = math.max(past(client), free) + UNSEEN - now
  if left <= 0 then return left, false end
  return math.min(left, math.max(past(redis.call('ZSCORE', seen, head)), since) + UNSEEN - now), false
end

-- Looks at a watched head again. Returns what `left_to` left it, or 0 if nobody listens for it.
local function look(head, left, foreign, told, deaf)
  if now - told < AGAIN then return left end
  if tell(head) ~= 0 then
    deaf = 0
  elseif deaf == 0 then
    deaf = now
  elseif foreign and now - deaf >= DEAF then
    return 0
  end
  redis.call('HSET', state, 'look', stamp, 'deaf', deaf)
  return left
end

-- The head of the free lock, and the ms until it may be dropped: 0 if there may be more to drop. It is told; those before
-- it are dead and dropped. The watch over a head goes on however seldom somebody looks, while its score is left alone: Java
-- changes it when the lock is taken meanwhile, or the head goes and comes again; `ms` after the last look it ends.
local function front(me, head, ms)
  if not head or head == me then return head, 0 end
  local known = redis.call('HMGET', state, 'head', 'score', 'since', 'look', 'free', 'deaf')
  local since, told, free, deaf = past(known[3]), past(known[4]), past(known[5]), past(known[6])
  local watched = known[1] == head and since > 0 and known[2] == redis.call('ZSCORE', timeouts, head)
  if not watched then since, free = now, now end
  local left, foreign = left_to(head, since, free)
  if not watched then
    watch(head, free, tell(head), ms)
  elseif left > 0 then
    left = look(head, left, foreign, told, deaf)
  end
  if left > 0 then return head, left end
  local dead, heads = {}, redis.call('LRANGE', queue, 0, DROPS)
  repeat
    dead[#dead + 1] = head
    head = heads[#dead + 1]
  until not head or head == me or #dead == DROPS or left_to(head, now, free) > 0
  check_scores(dead[1])
  redis.call('LPOP', queue, #dead)
  redis.call('ZREM', timeouts, unpack(dead))
  redis.call('ZREM', seen, unpack(dead))
  tidy()
  if not head or head == me then return head, 0 end
  watch(head, free, tell(head), ms)
  return head, math.max(left_to(head, now, free), 0)
end

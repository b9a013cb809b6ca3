-- fair/begin.lua: what the scripts of the fair lock share. Rule 17 of docs/PROTOCOL.md.
-- KEYS[1] lock      hash  owner -> hold count
-- KEYS[2] queue     list  owners that wait, the next one first
-- KEYS[3] timeouts  zset  owner -> epoch ms from which Java drops it when it is the head; each 300 s behind the one before
-- KEYS[4] seen      zset  owner, client -> epoch ms of its last call; lockson's waiters only
-- KEYS[5] state     hash  debt: ms that acquisitions have not taken off the scores yet; pass: how many from the front on the
--   pass over the scores has yet to see; kept (epoch ms of when the keys' own ends were set last) and ends (what was set for the
--   queue); and the watch over the head of the free lock: head ('' for none), score (which it has while the watch holds good),
--   since (epoch ms of the first look at it), look (when it was told last), free (of the first look at any head since the lock
--   is free), deaf (since when nobody listens on its channel, or 0)
-- Announces as announce.lua.
-- A refused command ends the script with its error, but for those of the holder, whose own work is done by then.
local lock, queue, timeouts, seen, state = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local WAIT, KEPT, OWN, RECENT = 300000, 86400000, '60000', 20000
-- A head of the free lock is dropped when a lockson client is unseen for UNSEEN; when a foreign one leaves it for IGNORED, or
-- nobody listens on its channel twice, DEAF apart. It is told again after AGAIN.
local UNSEEN, IGNORED, DEAF, AGAIN = 3000, 5000, 1000, 400
-- In one call so many of the dead go, and so many scores are set anew. The next call goes on.
local DROPS, SCORES = 100, 190

-- The server takes long to write a number of Lua's, so it is given texts where it matters.
local function whole(number)
  return string.format('%d', number)
end
local stamp = whole(now)

local function client_of(owner)
  return string.match(owner, '^[^:]*')
end

-- An owner is told that it is its turn on a channel of its own.
local function tell(owner)
  return announce('0', ':' .. owner)
end

-- A time on record; 0 where there is none, or where the clock has been set back since.
local function past(ms)
  ms = tonumber(ms or 0) or 0
  if ms > now then return 0 end
  return ms
end

-- Keeps Java from dropping an owner who is next. Lowers no score.
local function raise(owner, lease)
  redis.call('ZADD', timeouts, 'GT', whole(now + math.max(WAIT, lease)), owner)
end

-- The same for whoever is next, while the lock is held.
local function raise_head(lease)
  local head = redis.call('LINDEX', queue, '0')
  if head then raise(head, lease) end
end

-- Writes fields of the state, which ends by itself in `ms`: what may not is not left.
local function put(ms, ...)
  redis.call('HSET', state, ...)
  local set = redis.pcall('PEXPIRE', state, ms)
  if type(set) == 'table' then
    if redis.call('PTTL', state) == -1 then redis.call('UNLINK', state) end
    error(set, 0)
  end
end

-- The lock is free, since `free`, and its head was told: from now on it is watched, for `ms` at most. Here alone its score is
-- raised.
local function watch(head, free, receivers, ms)
  raise(head, 0)
  local score, deaf = redis.call('ZSCORE', timeouts, head), '0'
  if receivers == 0 then deaf = stamp end
  put(ms, 'head', head, 'score', score, 'since', stamp, 'look', stamp, 'free', whole(free), 'deaf', deaf)
end

-- The lock has become free: the next one is told, and watched. Fails nothing, as it is free whatever comes now: what is
-- refused here is told to whoever looks next.
local function wake()
  local head = redis.pcall('LINDEX', queue, '0')
  if type(head) ~= 'string' then return -1 end
  local receivers = tell(head)
  pcall(watch, head, now, receivers, OWN)
  return receivers
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

-- Takes what is kept beside a queue away with its last waiter. How many wait.
local function tidy()
  local length = redis.call('LLEN', queue)
  if length == 0 then redis.call('UNLINK', timeouts, seen, state) end
  return length
end

-- Asked before an owner goes from the list: with a score alone it would seem to have a place, and would never be told.
local function check_scores(owner)
  if redis.acl_check_cmd('ZREM', timeouts, owner) then return end
  error({err = 'NOPERM no permission to ZREM the scores of the queue'}, 0)
end

-- Takes an owner from within the list. Where there are as many places as scores it has one, and is looked for up to there, from
-- the end that is nearer by its score; else the whole list is looked through.
local function cut(owner, score)
  local count = '0'
  if score and redis.call('ZCARD', timeouts) == redis.call('LLEN', queue) then
    local first = redis.call('ZRANGE', timeouts, '0', '0', 'WITHSCORES')[2]
    local last = redis.call('ZRANGE', timeouts, '-1', '-1', 'WITHSCORES')[2]
    count = score - first > last - score and '-1' or '1'
  end
  redis.call('LREM', queue, count, owner)
end

-- Takes an owner out of the queue: the list first, as Java can't read a list whose owners have no scores. How many wait yet.
-- Who has no score is looked for only where nobody has one.
local function remove(owner, head)
  check_scores(owner)
  if head == owner then
    redis.call('LPOP', queue)
  else
    local score = redis.call('ZSCORE', timeouts, owner)
    if score or redis.call('EXISTS', timeouts) == 0 then cut(owner, score) end
  end
  redis.call('ZREM', timeouts, owner)
  redis.call('ZREM', seen, owner)
  return tidy()
end

-- An owner has taken the free lock, who `waited` for it or not. `kept` is what `state` has of debt, pass, kept and ends.
local function served(owner, waited, head, lease, kept)
  local waiting = remove(owner, head)
  if waiting == 0 then return end
  local debt, left = tonumber(kept[1] or 0) or 0, tonumber(kept[2] or 0) or 0
  if waited then
    -- Java would take 300 s off every score now. Here they are added up, until they are more than the queue is long: then a pass
    -- gives all the scores of waiters who came just now, some at each acquisition, from the tail on. Who leaves meanwhile moves
    -- others to the front only, where the pass is not yet: so it misses nobody. To see somebody twice does no harm.
    debt = debt + WAIT
    if left <= 0 and debt > waiting * WAIT then debt, left = 0, waiting end
    left = math.min(left, waiting)
    if left > 0 then
      local from, scores = math.max(left - SCORES, 0), {}
      for place, waiter in ipairs(redis.call('LRANGE', queue, from, left - 1)) do
        scores[2 * place - 1] = now + math.max(WAIT, lease) + (from + place - 1) * WAIT
        scores[2 * place] = waiter
      end
      redis.call('ZADD', timeouts, unpack(scores))
      left = from
    end
    redis.call('ZADD', seen, stamp, client_of(owner))
  end
  raise_head(lease)
  keep_on(kept[3], kept[4])
  redis.call('HSET', state, 'debt', whole(debt), 'pass', whole(left), 'head', '')
end

-- Nothing is held of what was to be given back. The head is told if the lock is free, but not watched from here on: a watch may
-- be on, and since when the lock is free is not known.
local function tell_if_free()
  local head = redis.call('EXISTS', lock) == 0 and redis.pcall('LINDEX', queue, '0')
  if type(head) == 'string' then tell(head) end
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
  -- What is left of a queue that Java emptied.
  if not tail then redis.call('UNLINK', state) end
  if tail then score = math.max(tonumber(redis.call('ZSCORE', timeouts, tail)) or now, now) + WAIT end
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

-- fair/begin.lua: what the scripts of the fair lock share. Rule 17 of docs/PROTOCOL.md.
-- KEYS[1] lock      hash  owner -> hold count
-- KEYS[2] queue     list  owners that wait, the next one first
-- KEYS[3] timeouts  zset  owner -> epoch ms from which Java drops it when it is the head; 300 s for each place, at least
-- KEYS[4] seen      zset  owner, client -> epoch ms of its last call; lockson's waiters only
-- KEYS[5] state     hash  pass: how many from the front on the pass over the scores has yet to see; kept (epoch ms of when the
--   keys' own ends were set last) and ends (what was set for the queue); and the watch over the head of the free lock: head,
--   score (which it has while the watch holds good), since (epoch ms of the first look at it), look (when it was told last),
--   free (of the first look at any head since the lock is free), deaf (since when nobody listens on its channel, or 0)
-- Announces as announce.lua.
-- A refused command ends the script with its error, but for those of the holder, whose own work is done by then.
local lock, queue, timeouts, seen, state = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
-- Of a place; and for how long lockson's own keys last.
local WAIT, OWN = 300000, '60000'
-- In one call so many scores are set anew. The next call goes on.
local SCORES = 190

-- The server takes long to write a number of Lua's, so it is given texts where it matters.
local function whole(number)
  return string.format('%d', number)
end
local stamp = whole(now)

-- An owner is told that it is its turn on a channel of its own.
local function tell(owner)
  return announce('0', ':' .. owner)
end

-- Keeps Java from dropping an owner who is next. Lowers no score. How many ms the score was further ahead than it has to be.
local function raise(owner, lease)
  local least, score = now + math.max(WAIT, lease), tonumber(redis.call('ZSCORE', timeouts, owner)) or 0
  if score < least then redis.call('ZADD', timeouts, whole(least), owner) end
  return score - least
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
-- the end that is nearer by its score; else the whole list is looked through. About how many places that may be.
local function cut(owner, score)
  local count, places = '0', redis.call('LLEN', queue)
  if score and redis.call('ZCARD', timeouts) == places then
    if redis.call('LINDEX', queue, '-1') == owner then
      count, places = '-1', 1
    else
      local first = redis.call('ZRANGE', timeouts, '0', '0', 'WITHSCORES')[2]
      local last = redis.call('ZRANGE', timeouts, '-1', '-1', 'WITHSCORES')[2]
      count, places = score - first > last - score and '-1' or '1', places / 2
    end
  end
  redis.call('LREM', queue, count, owner)
  return places
end

-- Takes an owner out of the queue: the list first, as Java can't read a list whose owners have no scores. How many wait yet, and
-- about how many places were looked through. Who has no score is looked for only where nobody has one. The last one goes with
-- all the keys at once: of a slot that moves none may be named once it is gone.
local function remove(owner, head)
  check_scores(owner)
  local places, waiting = 1, nil
  if head == owner then
    waiting = redis.call('LLEN', queue) - 1
    if waiting == 0 and type(redis.pcall('ZCARD', timeouts)) == 'number' then
      redis.call('UNLINK', queue, timeouts, seen, state)
      return 0, places
    end
    redis.call('LPOP', queue)
  else
    local score = redis.call('ZSCORE', timeouts, owner)
    if score or redis.call('EXISTS', timeouts) == 0 then places = cut(owner, score) end
  end
  redis.call('ZREM', timeouts, owner)
  redis.call('ZREM', seen, owner)
  return waiting or tidy(), places
end

-- One of the queue has taken the free lock; `waiting` are left, and `head` is the next. Java would take 300 s off every score
-- now. Here none is changed, until the next one's is twice as far ahead as the queue is long: then a pass gives all the scores
-- of waiters who came just now, some at each acquisition, from the tail on. Who leaves meanwhile moves others to the front
-- only, where the pass is not yet: so it misses nobody. To see somebody twice does no harm.
local function served(waiting, head, lease)
  if waiting == 0 then return end
  if raise(head, lease) <= 2 * waiting * WAIT then return end
  local left = tonumber(redis.call('HGET', state, 'pass')) or 0
  if left <= 0 or left > waiting then left = waiting end
  local from, scores = math.max(left - SCORES, 0), {}
  for place, waiter in ipairs(redis.call('LRANGE', queue, from, left - 1)) do
    scores[2 * place - 1] = whole(now + math.max(WAIT, lease) + (from + place - 1) * WAIT)
    scores[2 * place] = waiter
  end
  redis.call('ZADD', timeouts, unpack(scores))
  put(OWN, 'pass', from)
end

-- Nothing is held of what was to be given back. The head is told if the lock is free, but not watched from here on: a watch may
-- be on, and since when the lock is free is not known.
local function tell_if_free()
  local head = redis.call('EXISTS', lock) == 0 and redis.pcall('LINDEX', queue, '0')
  if type(head) == 'string' then tell(head) end
end

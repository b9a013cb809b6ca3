-- admin/list.lua: which locks, semaphores and latches are among the next keys of this server. Writes nothing.
-- ARGV[3] cursor of SCAN to go on from, 0 to begin  ARGV[4] pattern of SCAN  ARGV[5] how many keys one call looks at, roughly
-- Derives of the keys that it finds those beside them, which are in the same slot; what has moved away meanwhile is passed by.
-- Returns {1, nonce, now, cursor, scanned, hidden, key1, what1, ttl_ms1, value1, count1, holders1, waiting1 ..}: keys that were
--   looked at, and those that this user may not read; what: lock, read, write, plain, number, semaphore, permits, queue (of a free
--   lock); value: a holder's field, the token or the number; count: how often that one holds it; holders: how many do; waiting:
--   the length of the fair queue; {6, nonce, now, error} the server refused.
-- Redisson: has none.
local QUEUE = 'redisson_lock_queue:'
local function beside(prefix, lock)
  return prefix .. (string.find(lock, '{', 1, true) and lock or '{' .. lock .. '}')
end
local function queue_len(lock)
  local length = redis.pcall('LLEN', beside(QUEUE, lock))
  return type(length) == 'number' and length or 0
end
-- Of the name of a queue; nil: it is no queue, or its lock is held and is found by its own key.
local function freed(key)
  local lock = string.sub(key, #QUEUE + 1)
  local inner = string.match(lock, '^{([^{}]*)}$')
  lock = inner or lock
  if redis.pcall('EXISTS', lock) == 0 then return lock end
end
-- What is kept beside an object is none itself.
local function is_beside(key)
  return string.find(key, '^lockson:') or string.find(key, '^redisson_') or string.find(key, ':timeout$')
    or string.find(key, ':rwlock_timeout:%d+$')
end
local reply, hidden = {1, nonce, now, '0', 0, 0}, 0
local function add(...)
  for _, item in ipairs({...}) do reply[#reply + 1] = item end
end
local function look_at_queue(key)
  local lock = freed(key)
  local head = lock and redis.pcall('LINDEX', key, 0)
  if is_holder(head) then add(lock, 'queue', -1, head, 0, 0, queue_len(lock)) end
end
local function look_at_hash(key, ttl)
  local what, holders = what_hash(key)
  if what == 'foreign' then return end
  local holder = holders[1]
  if what == 'lock' then
    local count = redis.pcall('HGET', key, holder)
    if is_count(count) then add(key, what, ttl, holder, count, 1, queue_len(key)) end
    return
  end
  for _, field in ipairs(holders) do
    -- The writer stands before its own nested reads.
    if string.find(field .. ':', ':write:', 1, true) then holder = field end
  end
  local length, has_end = redis.pcall('HLEN', key), redis.pcall('HEXISTS', key, 'write_end')
  local is_known = type(length) == 'number' and type(has_end) == 'number'
  add(key, what, ttl, holder, redis.pcall('HGET', key, holder), is_known and length - 1 - has_end or #holders, 0)
end
local function look_at_string(key, ttl)
  local what, value = what_string(key, ttl)
  if what == 'foreign' or what == 'number' and ttl ~= -1 then return end
  if what == 'number' then
    if redis.pcall('EXISTS', beside('', key) .. ':timeout') == 1 then what = 'permits'
    elseif redis.pcall('EXISTS', beside('lockson:semaphore_life:', key)) == 1 then what = 'semaphore' end
  end
  add(key, what, ttl, value, 0, what == 'plain' and 1 or 0, 0)
end
local page = redis.pcall('SCAN', ARGV[3], 'MATCH', ARGV[4], 'COUNT', ARGV[5])
if page.err then return {6, nonce, now, page.err} end
for _, key in ipairs(page[2]) do
  if string.sub(key, 1, #QUEUE) == QUEUE then look_at_queue(key)
  elseif not is_beside(key) then
    local found, ttl = redis.pcall('TYPE', key), redis.pcall('PTTL', key)
    if found.err or type(ttl) == 'table' then hidden = hidden + 1
    elseif found.ok == 'hash' then look_at_hash(key, ttl)
    elseif found.ok == 'string' then look_at_string(key, ttl) end
  end
end
reply[4], reply[5], reply[6] = page[1], #page[2], hidden
return reply

-- admin/describe.lua: what is under a name, who holds it and who waits. Writes nothing.
-- KEYS[1] lock      any     what the name is of
-- KEYS[2] token     string  the last fencing token
-- KEYS[3] queue     list    owners that wait for a fair lock
-- KEYS[4] seen      zset    fair: owner, client -> epoch ms of its last call
-- KEYS[5] writers   zset    lockson writers that wait, and when each came
-- KEYS[6] expiries  zset    permit -> epoch ms
-- KEYS[7] made      string  there while the number is a semaphore's
-- KEYS[8] ended     string  how the last latch of this name ended
-- KEYS[9] absent  names no key, see read_write.lua
-- ARGV[3] NUMSUB, or SHARDNUMSUB in a cluster  ARGV[4] ARGV[5] ARGV[6] ARGV[7] ARGV[8]  the channels of locks, read/write locks,
--   plain locks, semaphores, latches
-- Derives {lock}:owner:rwlock_timeout:i, as Redisson does.
-- Returns {1, nonce, now, what, ttl_ms, value, token, made, ended, taken, held, queued, writing, listening1 .. listening5, n, field,
--   count, ttl_ms .. (n holders), n, field, ms since it was heard of .. (n waiters), n, id, ms left .. (n permits)}: what as in
--   admin/list.lua, or none, or foreign with its type as the value; -1 what is not known. {6, nonce, now, error} the server refused.
-- Redisson: has none.
local lock, token, queue, seen, writers = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local expiries, made, ended = KEYS[6], KEYS[7], KEYS[8]
local MOST = 100
local function text_of(key)
  local text = redis.pcall('GET', key)
  return type(text) == 'string' and string.sub(text, 1, 64) or ''
end
local function number(answer)
  return type(answer) == 'number' and answer or 0
end
local reply = {1, nonce, now}
local function add(...)
  for _, item in ipairs({...}) do reply[#reply + 1] = item end
end
local function add_all(rows)
  add(#rows)
  for _, row in ipairs(rows) do add(unpack(row)) end
end
-- What is left of a reader's lease: of the first of its holds that lives; -2: of none.
local looks = 2 * MOST
local function read_left(field, count)
  for _, key in ipairs(hold_keys(lock, field, 1, count)) do
    looks = looks - 1
    local left = redis.call('PTTL', key)
    if left ~= -2 or looks <= 0 then return left end
  end
  return -2
end
-- Those whose leases ended do not count.
local function holders_of(what, ttl)
  local rows, cursor = {}, '0'
  local function is_full() return #rows >= MOST or looks <= 0 end
  repeat
    local page = redis.call('HSCAN', lock, cursor, 'COUNT', 16)
    cursor = page[1]
    for at = 1, #page[2], 2 do
      local field, count, left = page[2][at], page[2][at + 1], ttl
      if is_full() then break end
      if what == 'write' and is_writer(field) then left = write_left(lock)
      elseif what ~= 'lock' and is_holder(field) then left = read_left(field, count) end
      if is_holder(field) and is_count(count) and left ~= -2 then rows[#rows + 1] = {field, count, left} end
    end
  until cursor == '0' or is_full()
  return rows
end
local function waiters_of()
  local rows = {}
  for _, owner in ipairs(redis.pcall('LRANGE', queue, 0, MOST - 1)) do
    local heard = tonumber(redis.pcall('ZSCORE', seen, owner) or '')
    rows[#rows + 1] = {owner, heard and math.max(now - heard, 0) or -1}
  end
  -- Writers in the order in which they came: that stands below zero.
  for _, place in ipairs(redis.pcall('ZRANGEBYSCORE', writers, '-inf', '(0', 'LIMIT', 0, MOST)) do
    local owner = string.sub(place, 2)
    local waits = tonumber(redis.pcall('ZSCORE', writers, owner) or '')
    if waits and waits >= now and #rows < MOST then rows[#rows + 1] = {owner, -1} end
  end
  return rows
end
local function permits_of()
  local rows = {}
  local found = redis.pcall('ZRANGEBYSCORE', expiries, '(' .. now, '+inf', 'WITHSCORES', 'LIMIT', 0, MOST)
  for at = 1, #found, 2 do
    local digits = string.gsub(found[at], '.', function(byte) return string.format('%02x', string.byte(byte)) end)
    rows[#rows + 1] = {digits, string.format('%.0f', found[at + 1] - now)}
  end
  return rows
end
local found, ttl = redis.pcall('TYPE', lock), redis.pcall('PTTL', lock)
if found.err then return {6, nonce, now, found.err} end
if type(ttl) == 'table' then return {6, nonce, now, ttl.err} end
local what, value = 'foreign', found.ok
if found.ok == 'none' then what, value = 'none', ''
elseif found.ok == 'hash' then what = what_hash(lock)
elseif found.ok == 'string' then
  local kind, text = what_string(lock, ttl)
  if kind ~= 'foreign' then what, value = kind, text end
end
local is_lock = what == 'lock' or what == 'read' or what == 'write'
local holders = is_lock and holders_of(what, ttl) or {}
local taken = redis.pcall('ZCOUNT', expiries, '(' .. now, '+inf')
if redis.pcall('EXISTS', expiries) ~= 1 or type(taken) ~= 'number' then taken = -1 end
add(what, ttl, value, text_of(token), redis.pcall('EXISTS', made) == 1 and 1 or 0, text_of(ended), taken)
local held = is_lock and redis.call('HLEN', lock) or 0
if what == 'read' or what == 'write' then held = held - 1 - redis.call('HEXISTS', lock, 'write_end') end
add(held, number(redis.pcall('LLEN', queue)))
add(number(redis.pcall('ZCOUNT', writers, now, '+inf')))
local listening = redis.pcall('PUBSUB', ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7], ARGV[8])
for at = 2, 10, 2 do add(listening[at] or -1) end
add_all(holders)
add_all(waiters_of())
add_all(permits_of())
return reply

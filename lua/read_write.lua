-- read_write.lua: stands behind begin.lua in the scripts of read/ and write/, and gives them functions.
-- A reader is a field of the hash and, for each time that it holds, a key beside it, whose TTL is that hold's lease.
-- The field counts as long as one of these keys lives. The first one carries the longest lease of all that lockson
-- took.
local most = 1000
local function hold_key(lock, owner, i)
  local tag = string.find(lock, '{', 1, true) and lock or '{' .. lock .. '}'
  return tag .. ':' .. owner .. ':rwlock_timeout:' .. i
end
local function is_reader(lock, owner, count)
  for i = 1, math.min(tonumber(count) or 0, most) do
    if redis.call('EXISTS', hold_key(lock, owner, i)) == 1 then return true end
  end
  return false
end
local function set_hold(lock, owner, i, lease)
  redis.call('SET', hold_key(lock, owner, i), '1', 'PX', lease)
end
local function keep_hold(lock, owner, i, lease)
  if redis.call('PTTL', hold_key(lock, owner, i)) < lease then set_hold(lock, owner, i, lease) end
end
-- A writer's field ends with :write, or goes on with a transaction's id.
local function is_writer(field)
  return string.find(field .. ':', ':write:', 1, true) ~= nil
end
local function lengthen(key, lease)
  if redis.call('PTTL', key) < lease then redis.call('PEXPIRE', key, lease) end
end
-- Whether any reader lives. Stops at the first; the dead that it meets on the way are dropped.
local function has_readers(lock)
  local cursor = '0'
  repeat
    local page = redis.call('HSCAN', lock, cursor, 'COUNT', 16)
    cursor = page[1]
    for at = 1, #page[2], 2 do
      local owner = page[2][at]
      if owner ~= 'mode' then
        if is_reader(lock, owner, page[2][at + 1]) then return true end
        redis.call('HDEL', lock, owner)
      end
    end
  until cursor == '0'
  return false
end
local function drop_reader(lock, owner, count)
  redis.call('HDEL', lock, owner)
  for i = 1, math.min(tonumber(count) or 0, most) do redis.call('DEL', hold_key(lock, owner, i)) end
end
local function announce(channel, message)
  local receivers = redis.pcall('PUBLISH', channel, message)
  if type(receivers) ~= 'number' then return -1 end
  return receivers
end
-- A writer left. `1` lets all of Java's waiters in that sleep, and none that is only about to: `0` is kept for one of
-- those, in each process. Who comes in announces its own end, so the others are woken in their turn.
local function announce_writer(channel)
  local receivers = announce(channel, '1')
  if receivers > 0 then announce(channel, '0') end
  return receivers
end
-- A reader left: with the last one the hash goes, and that is announced.
local function after_reader(lock, channel)
  if redis.call('HGET', lock, 'mode') ~= 'read' or has_readers(lock) then return -1 end
  redis.call('DEL', lock)
  return announce(channel, '0')
end
-- Whether lockson writers wait (a rule of lockson's own, which Java does not see): a waiting writer leaves its field
-- in a set for 2 s from each of its attempts, at least one a second, and takes it out when it is served or gives up.
-- While one is there, no reader comes in whose owner holds nothing yet; but for 100 ms from the end of each write
-- hold readers may pass, so that writers don't keep them out either. Scores are server time. Without the right to
-- ask, none wait.
local function writers_wait(writers)
  local waiting = redis.pcall('ZCOUNT', writers, now, '+inf')
  return type(waiting) == 'number' and waiting > 0
end
-- Beside the field of a writer that waits stands when it came, below zero: the first to come is the first of the set.
local function place_of(field)
  return '#' .. field
end
-- Until when a writer waits that came before this one; nil: none does. The dead are dropped on the way.
local function writer_before(writers, field)
  for _ = 1, 100 do
    local first = redis.pcall('ZRANGE', writers, 0, 0, 'WITHSCORES')
    if not first[1] or tonumber(first[2]) >= 0 or first[1] == place_of(field) then return nil end
    local other = string.sub(first[1], 2)
    local waits = redis.pcall('ZSCORE', writers, other)
    if type(waits) == 'table' then return nil end
    if waits and tonumber(waits) >= now then return tonumber(waits) end
    redis.pcall('ZREM', writers, first[1], other)
  end
end
-- Whether a reader that holds nothing yet has to wait, and for how long at most.
local function keeps_readers_out(lock, mode, writers, turn)
  if mode ~= 'read' and redis.call('EXISTS', lock) == 1 then return true, redis.call('PTTL', lock) end
  if writers_wait(writers) and redis.call('EXISTS', turn) == 0 then return true, redis.call('PTTL', writers) end
  return false
end
-- How often a reader holds, as it was found; false if its leases ended.
local function count_of(lock, owner)
  local found = redis.call('HGET', lock, owner)
  if found and tonumber(found) and not is_reader(lock, owner, found) then return false end
  return found
end
-- Moves a reader's count from n to n + 1, once. The error of a refusal, or nil.
local function add_reader(lock, mode, owner, found, n, lease)
  local count = tonumber(found or 0)
  -- First what ends by itself: if the rest is refused, nothing stays.
  if found then keep_hold(lock, owner, n + 1, lease) else set_hold(lock, owner, 1, lease) end
  if found == false then
    if mode then redis.call('HSET', lock, owner, '1') else redis.call('HSET', lock, 'mode', 'read', owner, '1') end
  elseif count == n then
    redis.call('HINCRBY', lock, owner, '1')
  end
  if n > 0 then keep_hold(lock, owner, 1, lease) end
  if redis.call('PTTL', lock) >= lease then return nil end
  local set = redis.pcall('PEXPIRE', lock, lease)
  if type(set) ~= 'table' then return nil end
  if count == n and n > 0 then redis.call('HINCRBY', lock, owner, '-1') end
  if n == 0 then drop_reader(lock, owner, 1) end
  if not mode then redis.call('DEL', lock) end
  return set.err
end
-- The writer left: its nested read holds stay, otherwise the hash goes. Readers who waited go before the next writer.
local function after_writer(lock, channel, writers, turn)
  if has_readers(lock) then redis.call('HSET', lock, 'mode', 'read') else redis.call('DEL', lock) end
  if writers_wait(writers) then redis.pcall('SET', turn, '1', 'PX', 100) end
  return announce_writer(channel)
end

-- read_write.lua: stands behind begin.lua in the scripts of read/ and write/, and gives them functions.
-- A reader is a field of the hash and, for each time that it holds, a key beside it, whose TTL is that hold's lease.
-- The field counts as long as one of these keys lives. The first one carries the longest lease of all that lockson
-- took.
-- Which holds there are is data, so no caller can name the keys of all of them. The scripts that look at them name one
-- more, `absent`, that is never there: while the lock's slot moves to another node, the server refuses them by it before
-- they run (TRYAGAIN), and none runs half-way.
-- A call looks at most at so many holds of one reader, and at so many readers (rule 12).
local MOST_HOLDS, MOST_READERS = 240, 100
local function hold_key(lock, owner, i)
  local tag = string.find(lock, '{', 1, true) and lock or '{' .. lock .. '}'
  return tag .. ':' .. owner .. ':rwlock_timeout:' .. i
end
-- The keys of its holds, from the i-th on.
local function hold_keys(lock, owner, i, count)
  local keys = {}
  for hold = i, math.min(tonumber(count) or 0, MOST_HOLDS) do keys[#keys + 1] = hold_key(lock, owner, hold) end
  return keys
end
local function is_reader(lock, owner, count)
  -- Nearly always the first one tells.
  if not tonumber(count) or tonumber(count) < 1 then return false end
  if redis.call('EXISTS', hold_key(lock, owner, 1)) == 1 then return true end
  local others = hold_keys(lock, owner, 2, count)
  return #others > 0 and redis.call('EXISTS', unpack(others)) > 0
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
-- A key that has gone to another node before its lock is left alone.
local function lengthen(key, lease)
  local left = redis.pcall('PTTL', key)
  if type(left) == 'number' and left < lease then redis.call('PEXPIRE', key, lease) end
end
-- When the lease of the write hold ends, where that is not the TTL of the hash: a nested read hold of a longer lease
-- keeps the hash. What stands there is no number, so that nobody, Java neither, takes it for a reader's count.
local function write_end(lock)
  local ends = redis.call('HGET', lock, 'write_end')
  return ends and tonumber(string.sub(ends, 2))
end
local function set_write_end(lock, lease)
  redis.call('HSET', lock, 'write_end', '@' .. (now + lease))
end
local function is_write_over(lock)
  local ends = write_end(lock)
  return ends and now > ends
end
-- What is left of the lease of the write hold.
local function write_left(lock)
  local left, ends = redis.call('PTTL', lock), write_end(lock)
  return ends and math.min(left, ends - now + 1) or left
end
-- The TTL of the hash goes beyond the lease of the write hold, if it has one and was its lease until now.
local function part_write(lock, left)
  if left >= 0 and not write_end(lock) then set_write_end(lock, left) end
end
-- The hash lives for a read hold's lease at least.
local function keep_hash(lock, lease)
  local left = redis.call('PTTL', lock)
  if left >= lease then return end
  redis.call('PEXPIRE', lock, lease)
  if redis.call('HGET', lock, 'mode') == 'write' then part_write(lock, left) end
end
-- The lease of the write hold is this at least. First comes what no memory limit refuses: then the rest is let through.
local function keep_write(lock, lease)
  redis.call('PEXPIRE', lock, math.max(redis.call('PTTL', lock), lease))
  local ends = write_end(lock)
  if ends and ends < now + lease then set_write_end(lock, lease) end
end
-- The field of the writer and its count. A write hold has only the read holds of its own owner beside it; `true` if
-- there is more than one call may look at.
local function writer_of(lock, owner)
  if redis.call('HLEN', lock) > MOST_READERS then return true end
  local fields = redis.call('HGETALL', lock)
  for at = 1, #fields, 2 do
    if (owner == '' or fields[at] == owner) and is_writer(fields[at]) then return fields[at], fields[at + 1] end
  end
end
-- The mode, or an error. A write hold whose lease ended is taken out: what it nested reads on.
local function mode_of(lock)
  local mode = redis.pcall('HGET', lock, 'mode')
  if mode ~= 'write' or not is_write_over(lock) then return mode end
  local writer = writer_of(lock, '')
  if writer == true then return mode end
  -- In this order, as in end_write.
  redis.call('HDEL', lock, '')
  redis.call('HSET', lock, 'mode', 'read')
  redis.call('HDEL', lock, 'write_end', writer or 'write_end')
  return 'read'
end
local function drop_holds(lock, owner, i, count)
  local keys = hold_keys(lock, owner, i, count)
  if #keys > 0 then redis.call('DEL', unpack(keys)) end
end
local function drop_reader(lock, owner, count)
  redis.call('HDEL', lock, owner)
  drop_holds(lock, owner, 1, count)
end
-- Shows readers to `finds` until it says yes: 'some'; or 'none', or 'unknown' when one call may not look at more.
local function each_reader(lock, finds)
  local cursor, left = '0', MOST_READERS
  repeat
    local page = redis.call('HSCAN', lock, cursor, 'COUNT', 16)
    cursor = page[1]
    for at = 1, #page[2], 2 do
      local owner, count = page[2][at], page[2][at + 1]
      if owner ~= 'mode' then
        if left <= 0 then return 'unknown' end
        if finds(owner, count) then return 'some' end
        left = left - math.max(math.min(tonumber(count) or 1, MOST_HOLDS), 1)
      end
    end
  until cursor == '0'
  return 'none'
end
-- Looks for a living reader. The dead that it meets on the way are dropped, so that the next call gets further; not this
-- writer.
local function look_for_readers(lock, writer)
  return each_reader(lock, function(owner, count)
    if owner == writer then return false end
    if is_reader(lock, owner, count) then return true end
    redis.call('HDEL', lock, owner)
  end)
end
-- A writer left. `1` lets all of Java's waiters in that sleep, and none that is only about to: `0` is kept for one of
-- those, in each process. Who comes in announces its own end, so the others are woken in their turn.
local function announce_writer()
  local receivers = announce('1')
  if receivers > 0 then announce('0') end
  return receivers
end
-- A reader left: with the last one the hash goes, and that is announced. If it is not known whether there is another,
-- whoever waits is to look.
local function after_reader(lock)
  if mode_of(lock) ~= 'read' then return -1 end
  local readers = look_for_readers(lock)
  if readers == 'some' then return -1 end
  if readers == 'none' then redis.call('DEL', lock) end
  return announce('0')
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
  if mode ~= 'read' and redis.call('EXISTS', lock) == 1 then return true, write_left(lock) end
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
  local left = redis.call('PTTL', lock)
  if left >= lease then
    -- Found done, it writes all the same, for a replica to confirm.
    if count ~= n then redis.call('PEXPIRE', lock, left) end
    return nil
  end
  local set = redis.pcall('PEXPIRE', lock, lease)
  if type(set) ~= 'table' then
    if mode == 'write' then part_write(lock, left) end
    return nil
  end
  if count == n and n > 0 then redis.call('HINCRBY', lock, owner, '-1') end
  if n == 0 then drop_reader(lock, owner, 1) end
  if not mode then redis.call('DEL', lock) end
  return set.err
end
-- The writer leaves: its nested read holds stay, otherwise the hash goes. Readers who waited go before the next writer.
local function end_write(lock, owner, writers, turn)
  -- What may be refused comes before the hold goes: a hash of mode `write` without a writer keeps everybody out. And first
  -- what no memory limit refuses: then the rest is let through.
  redis.call('HDEL', lock, '')
  if look_for_readers(lock, owner) == 'none' then
    redis.call('HDEL', lock, owner, 'write_end', 'mode')
  else
    redis.call('HSET', lock, 'mode', 'read')
    redis.call('HDEL', lock, owner, 'write_end')
  end
  if writers_wait(writers) then redis.pcall('SET', turn, '1', 'PX', 100) end
  return announce_writer()
end

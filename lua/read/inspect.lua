-- read/inspect.lua: who reads. Writes nothing.
-- KEYS[1] lock  hash  mode -> read or write, reader -> count, writer:write -> count
-- KEYS[2] absent  names no key, see read_write.lua
-- ARGV[3] owner, empty for everybody  ARGV[4] cursor of HSCAN to go on from, 0 to begin
-- Derives {lock}:owner:rwlock_timeout:i, as Redisson does.
-- Returns {1, nonce, now, ttl_ms, owner1, count1 ..} held, and behind that a cursor if there are more to look at than in
--   one call (perhaps none of those looked at); {0, nonce, now} by nobody; {4, nonce, now, error} another type.
-- Redisson: readLock().isLocked, getHoldCount, remainTimeToLive, in one. Differs: readers whose leases ended do not
--   count.
local lock = KEYS[1]
local owner, cursor = ARGV[3], ARGV[4]
local mode = redis.pcall('HGET', lock, 'mode')
if type(mode) == 'table' then return {4, nonce, now, mode.err} end
if not mode then return {0, nonce, now} end
local reply, left = {1, nonce, now, redis.call('PTTL', lock)}, MOST_READERS
repeat
  local fields = {owner, redis.call('HGET', lock, owner)}
  if owner == '' then
    local page = redis.call('HSCAN', lock, cursor, 'COUNT', 16)
    cursor, fields = page[1], page[2]
  end
  for at = 1, #fields, 2 do
    local reader, count = fields[at], fields[at + 1]
    if is_reader(lock, reader, count) then reply[#reply + 1], reply[#reply + 2] = reader, count end
    left = left - math.max(math.min(tonumber(count) or 1, MOST_HOLDS), 1)
  end
until owner ~= '' or cursor == '0' or left <= 0
if owner == '' and cursor ~= '0' then reply[#reply + 1] = cursor end
if #reply == 4 then return {0, nonce, now} end
return reply

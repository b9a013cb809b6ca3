-- read/admit.lua: take the first read hold for each of those who wait together, as read/acquire.lua does for one.
-- KEYS[1] lock     hash    mode -> read or write, reader -> count, writer:write -> count
-- KEYS[2] writers  zset    lockson writers that wait -> server time until which they do
-- KEYS[3] turn     string  while it lives, readers may pass waiting writers
-- KEYS[4] absent  names no key, see read_write.lua
-- ARGV[i] owner  ARGV[i + 1] lease_ms, for i = 3, 5 ..: those who wait, in their order
-- Derives {lock}:owner:rwlock_timeout:i, as Redisson does.
-- Returns {1, nonce, now, v1 .. vn}: 1 held, 0 not, and read/acquire.lua says why; {4, nonce, now, error} another type.
-- Redisson: has none; there each reader that waits asks for itself.
local lock, writers, turn = KEYS[1], KEYS[2], KEYS[3]
local mode = mode_of(lock)
if type(mode) == 'table' then return {4, nonce, now, mode.err} end
local is_busy = keeps_readers_out(lock, mode, writers, turn)
local reply = {1, nonce, now}
for i = 3, #ARGV, 2 do
  local owner, lease = ARGV[i], tonumber(ARGV[i + 1])
  local found, held = redis.call('HGET', lock, owner), 0
  if found == '1' then found = count_of(lock, owner) end
  local may = found == '1' or found == false and not is_busy
  if may and not add_reader(lock, mode, owner, found, 0, lease) then
    mode, held = mode or 'read', 1
  end
  reply[#reply + 1] = held
end
return reply

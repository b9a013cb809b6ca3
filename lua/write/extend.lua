-- write/extend.lua: set the lease of a write hold exactly, or (lease 0) only look whether it is still there.
-- KEYS[1] lock  hash  mode -> read or write, reader -> count, writer:write -> count
-- KEYS[2] absent  names no key, see read_write.lua
-- ARGV[3] owner:write  ARGV[4] lease_ms, 0 to leave it
-- Derives {lock}:reader:rwlock_timeout:i, as Redisson does.
-- Returns {1, nonce, now, ttl_ms} held; {3, nonce, now} not held; {4, nonce, now, error} another type.
-- Redisson: has none for a holder.
local lock = KEYS[1]
local owner, lease = ARGV[3], tonumber(ARGV[4])
local held = redis.pcall('HEXISTS', lock, owner)
if type(held) == 'table' then return {4, nonce, now, held.err} end
if held == 0 or is_write_over(lock) then return {3, nonce, now} end
-- A write hold has only the read holds of its own owner beside it.
if redis.call('HLEN', lock) > MOST_READERS then return {4, nonce, now, 'its hash has too many fields'} end
if lease > 0 then
  -- The hash has to outlive the nested read holds, of which the first has the longest lease.
  local fields, longest = redis.call('HGETALL', lock), lease
  for at = 1, #fields, 2 do longest = math.max(longest, redis.call('PTTL', hold_key(lock, fields[at], 1))) end
  redis.call('PEXPIRE', lock, longest)
  if longest > lease then set_write_end(lock, lease) else redis.call('HDEL', lock, 'write_end') end
end
return {1, nonce, now, write_left(lock)}

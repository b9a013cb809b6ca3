-- read/extend.lua: set the lease of a reader's holds exactly, or (lease 0) only look whether it still has any.
-- KEYS[1] lock  hash  mode -> read or write, reader -> count, writer:write -> count
-- KEYS[2] absent  names no key, see read_write.lua
-- ARGV[3] owner  ARGV[4] lease_ms, 0 to leave it
-- Derives {lock}:owner:rwlock_timeout:i, as Redisson does.
-- Returns {1, nonce, now, ttl_ms} held; {3, nonce, now} not held; {4, nonce, now, error} another type.
-- Redisson: has none for a holder.
local lock = KEYS[1]
local owner, lease = ARGV[3], tonumber(ARGV[4])
local found = redis.pcall('HGET', lock, owner)
if type(found) == 'table' then return {4, nonce, now, found.err} end
if found == false or not is_reader(lock, owner, found) then return {3, nonce, now} end
if lease > 0 then
  for _, key in ipairs(hold_keys(lock, owner, 1, found)) do redis.call('PEXPIRE', key, ARGV[4]) end
  -- The hash has to outlive the holds of others.
  local alone = redis.call('HLEN', lock) == 2
  if alone then redis.call('PEXPIRE', lock, ARGV[4]) else keep_hash(lock, lease) end
end
return {1, nonce, now, redis.call('PTTL', lock)}

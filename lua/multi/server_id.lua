-- multi/server_id.lua: an id of this server, made when there is none. By it a multi-lock knows whether the locks that two
--   clients have of one name are the same lock, and in which order to take them if not.
-- KEYS[1] id  string
-- ARGV[3] a fresh id  ARGV[4] ttl_ms
-- Returns {1, nonce, now, id} the id; {4, nonce, now, error} another type; {6, nonce, now, error} refused.
-- Redisson: has none; its multi-lock takes its members in the caller's order.
local id = KEYS[1]
local found = redis.pcall('GET', id)
if type(found) == 'table' then return {4, nonce, now, found.err} end
if not found then
  local set = redis.pcall('SET', id, ARGV[3], 'PX', ARGV[4])
  if set.err then return {6, nonce, now, set.err} end
  return {1, nonce, now, ARGV[3]}
end
redis.call('PEXPIRE', id, ARGV[4])
return {1, nonce, now, found}

-- preflight.lua: what a client has to know before its first lock. Writes nothing.
-- KEYS[1] lock  a name that nobody uses
-- ARGV[3] one more command that is needed, or none
-- Announces as announce.lua: it asks whether it may.
-- Returns {1, nonce, now, missing, server, replication, memory}: the rights that are missing, comma-separated, and
--   three sections of INFO (empty where INFO is refused).
local lock = KEYS[1]
-- In a cluster messages have a slot, and a slot on its way is asked for.
local sharded = publish == 'SPUBLISH'
local subscribe, unsubscribe = 'SUBSCRIBE', 'UNSUBSCRIBE'
if sharded then subscribe, unsubscribe = 'SSUBSCRIBE', 'SUNSUBSCRIBE' end
local needed = {
  {'HGET', lock, 'o'}, {'EXISTS', lock}, {'PTTL', lock}, {'HINCRBY', lock, 'o', '1'}, {'HSET', lock, 'o', '1'},
  {'HDEL', lock, 'o'}, {'HEXISTS', lock, 'o'}, {'PEXPIRE', lock, '1000'}, {'HSCAN', lock, '0'},
  {'DEL', lock}, {'UNLINK', lock}, {publish, channel, '0'}, {subscribe, channel}, {unsubscribe, channel}, {'PING'},
  {'EVAL', '', '1', lock},
}
if sharded then
  needed[#needed + 1] = {'ASKING'}
  needed[#needed + 1] = {'CLUSTER', 'SLOTS'}
end
if ARGV[3] then
  needed[#needed + 1] = {ARGV[3], '0', '0'}
  -- Which replicas there are.
  if sharded then needed[#needed + 1] = {'CLUSTER', 'NODES'} end
end
local missing = {}
-- Before 7.0 there is none, and the version says so.
local allows = redis.acl_check_cmd or function() return true end
for _, command in ipairs(needed) do
  if not allows(unpack(command)) then missing[#missing + 1] = command[1] end
end
local function info(section)
  local text = redis.pcall('INFO', section)
  if type(text) == 'table' then return '' end
  return text
end
return {1, nonce, now, table.concat(missing, ','), info('server'), info('replication'), info('memory')}

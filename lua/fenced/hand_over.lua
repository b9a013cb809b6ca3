-- fenced/hand_over.lua: reentrant/hand_over.lua, with a token for the new hold.
-- KEYS[1] lock   hash    owner -> hold count
-- KEYS[2] token  string  the last token given, without TTL
-- ARGV[3] from  ARGV[4] to  ARGV[5] lease_ms of the new hold  ARGV[6] the highest token that this client has seen
-- Returns as reentrant/hand_over.lua, and when handed over the token as text: {1, nonce, now, token};
--   {6, nonce, now, error} refused.
-- Redisson: has none.
local lock, token = KEYS[1], KEYS[2]
local from, to, lease, seen = ARGV[3], ARGV[4], tonumber(ARGV[5]), ARGV[6]
local held = redis.pcall('HGET', lock, from)
if type(held) == 'table' then return {4, nonce, now, held.err} end
local stored = redis.pcall('GET', token)
if type(stored) == 'table' then return {4, nonce, now, stored.err} end
if held == false then
  if redis.call('HGET', lock, to) ~= '1' then return {3, nonce, now} end
  -- An earlier copy did it: meanwhile the new hold may have a longer lease.
  if redis.call('PTTL', lock) < lease then redis.call('PEXPIRE', lock, lease) end
  return {1, nonce, now, stored}
end
if held ~= '1' then return {5, nonce, now, held} end
local clock = time[1] .. string.format('%06d', time[2])
for _, floor in ipairs({seen, clock}) do
  if not stored or #floor > #stored or (#floor == #stored and floor > stored) then stored = floor end
end
redis.call('SET', token, stored)
local raised = redis.pcall('INCR', token)
if type(raised) == 'table' then return {6, nonce, now, raised.err} end
redis.call('HSET', lock, to, '1')
local set = redis.pcall('PEXPIRE', lock, ARGV[5])
if type(set) == 'table' then
  redis.call('HDEL', lock, to)
  return {6, nonce, now, set.err}
end
redis.call('HDEL', lock, from)
return {1, nonce, now, redis.call('GET', token)}

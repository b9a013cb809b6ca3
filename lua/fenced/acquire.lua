-- fenced/acquire.lua: reentrant/acquire.lua, and a token that rises with every hold.
-- KEYS[1] lock   hash    owner -> hold count
-- KEYS[2] token  string  the last token given, without TTL
-- ARGV[3] owner  ARGV[4] lease_ms  ARGV[5] n  ARGV[6] the highest token that this client has seen
-- ARGV[7] 1 when this hold has no token yet
-- Returns as reentrant/acquire.lua, and when held the token as text: {1, nonce, now, token}.
-- Redisson: RedissonFencedLock.tryLockInnerAsync. Differs: as reentrant/acquire.lua; a retry and a re-entry keep the token;
--   a token is at least the server's time in microseconds, so that it rises over data loss too; exact beyond 2^53.
local lock, token = KEYS[1], KEYS[2]
local owner, lease, n, seen, raise = ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6], ARGV[7]
local found = redis.pcall('HGET', lock, owner)
if type(found) == 'table' then return {4, nonce, now, found.err} end
local stored = redis.pcall('GET', token)
if type(stored) == 'table' then return {4, nonce, now, stored.err} end
local count = tonumber(found or 0)
local ttl = redis.call('PTTL', lock)
if found == false then
  if n > 0 then return {3, nonce, now} end
  if ttl ~= -2 then return {0, nonce, now, ttl} end
elseif count ~= n and count ~= n + 1 then
  return {5, nonce, now, found}
end
if count == n and raise == '1' then
  -- Decimal texts are compared by length, then digit by digit: Lua's numbers end at 2^53.
  local clock = time[1] .. string.format('%06d', time[2])
  for _, floor in ipairs({seen, clock}) do
    if not stored or #floor > #stored or (#floor == #stored and floor > stored) then stored = floor end
  end
  redis.call('SET', token, stored)
  local raised = redis.pcall('INCR', token)
  if type(raised) == 'table' then return {6, nonce, now, raised.err} end
  stored = redis.call('GET', token)
end
if count == n then redis.call('HINCRBY', lock, owner, '1') end
if ttl < lease then
  local set = redis.pcall('PEXPIRE', lock, ARGV[4])
  if type(set) == 'table' then
    if count == n then redis.call('HINCRBY', lock, owner, -1) end
    if n == 0 then redis.call('HDEL', lock, owner) end
    return {6, nonce, now, set.err}
  end
end
return {1, nonce, now, stored}

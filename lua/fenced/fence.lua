-- fenced/fence.lua: stands behind the script of a kind that takes the lock, for its owner or for the next, which is the
-- body of the function acquire, and gives a hold that begins a token that rises. What would refuse the token refuses the
-- lock first, as what is refused must have written nothing.
-- KEYS[1] lock  hash  owner -> hold count
-- KEYS[#KEYS] token  string  the last token given, without TTL; behind the keys of the kind's script
-- ARGV[#ARGV - 2] owner of the hold  ARGV[#ARGV - 1] the highest token that this client has seen  ARGV[#ARGV] the count
--   that a hold without a token comes from, `any` where another may have begun it, empty when it has a token; behind the
--   arguments of the kind's script
-- Returns what the kind's script does, and where a hold without a token is held, the token as text behind it;
--   {4, nonce, now, error} another type; {6, nonce, now, error} refused.
-- Redisson: RedissonFencedLock.tryLockInnerAsync. Differs: a retry and a re-entry keep the token; a token is at least the
--   server's time in microseconds, so that it rises over data loss too; exact beyond 2^53; of every exclusive kind.
local MOST = '9223372036854775807'
local lock, token = KEYS[1], KEYS[#KEYS]
local owner, highest, from = ARGV[#ARGV - 2], ARGV[#ARGV - 1], ARGV[#ARGV]
if from == '' then return acquire() end
local held = redis.pcall('HGET', lock, owner)
if type(held) == 'table' then return {4, nonce, now, held.err} end
local stored = redis.pcall('GET', token)
if type(stored) == 'table' then return {4, nonce, now, stored.err} end
-- Decimal texts are compared by length, then digit by digit: Lua's numbers end at 2^53.
local function is_higher(one, other)
  return #one > #other or (#one == #other and one > other)
end
local function one_more(text)
  local head, nines = string.match(text, '^(%d-)(9*)$')
  if head == '' then head = '0' end
  return string.sub(head, 1, -2) .. (tonumber(string.sub(head, -1)) + 1) .. string.rep('0', #nines)
end
local fresh
if from == 'any' or (held or '0') == from or not stored then
  local last = stored or '0'
  if last ~= '0' and not string.match(last, '^[1-9]%d*$') then
    return {6, nonce, now, 'ERR the value at the key of the token is not a token'}
  end
  for _, floor in ipairs({highest, time[1] .. string.format('%06d', time[2])}) do
    if is_higher(floor, last) then last = floor end
  end
  fresh = one_more(last)
  if is_higher(fresh, MOST) then return {6, nonce, now, 'ERR there is no token above the last one'} end
  if not redis.acl_check_cmd('SET', token, fresh) then
    return {6, nonce, now, 'NOPERM no permission to SET the key of the token'}
  end
end
local reply = acquire()
if reply[1] ~= 1 then return reply end
if fresh then redis.call('SET', token, fresh) end
reply[4] = fresh or stored
return reply

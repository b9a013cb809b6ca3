-- fenced/fence.lua: take the lock, and give each hold that begins a fencing token, which is higher than all before it. The
-- lock is taken by its kind's acquire or hand_over script, which is the body of the function acquire. Whether the token may
-- be written is asked first: a call that is refused must not have taken the lock.
-- KEYS[#KEYS] token  string  the last token given, without TTL; behind the keys of the kind's script
-- Behind the arguments of the kind's script:
-- ARGV[#ARGV - 1] the highest token that this client has seen
-- ARGV[#ARGV] empty: the hold has its token; 1: it has none, and gets one, also where its work is found done: by an earlier
--   copy, whose token nobody was told, or by a hold of before that came back with older data, whose token others follow
-- Returns what the kind's script does, and where a hold without a token is held, {1, nonce, now, token}, the token as text;
--   {4, nonce, now, error} another type; {6, nonce, now, error} refused.
-- Redisson: RedissonFencedLock.tryLockInnerAsync. Differs: a re-entry keeps the token; a token is at least the
--   server's time in microseconds, so that it rises over data loss too; exact beyond 2^53; of every exclusive kind.
local MOST = '9223372036854775807'
local token, highest = KEYS[#KEYS], ARGV[#ARGV - 1]
if ARGV[#ARGV] == '' then return acquire() end
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
local last = stored or '0'
if last ~= '0' and not string.match(last, '^[1-9]%d*$') then
  return {6, nonce, now, 'ERR the value at the key of the token is not a token'}
end
for _, floor in ipairs({highest, time[1] .. string.format('%06d', time[2])}) do
  if is_higher(floor, last) then last = floor end
end
local fresh = one_more(last)
if is_higher(fresh, MOST) then return {6, nonce, now, 'ERR there is no token above the last one'} end
if not redis.acl_check_cmd('SET', token, fresh) then
  return {6, nonce, now, 'NOPERM no permission to SET the key of the token'}
end
local reply = acquire()
if type(reply) == 'string' then reply = {1, nonce, now} end
if reply[1] ~= 1 then return reply end
redis.call('SET', token, fresh)
reply[4] = fresh
return reply

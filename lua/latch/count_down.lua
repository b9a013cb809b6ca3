-- latch/count_down.lua: one less to wait for; the last one opens the latch.
-- KEYS[1] latch  string  the count
-- KEYS[2] ended  string  when and how the last latch of this name ended
-- KEYS[3] receipt  string  what this call did (once.lua)
-- ARGV[3] call  ARGV[4] receipt_ms
-- Announces as announce.lua.
-- Returns {1, nonce, now, left} counted; {0, nonce, now} there is no latch; {4, nonce, now, error} another type;
--   {6, nonce, now, error} refused.
-- Redisson: RedissonCountDownLatch.countDownAsync. Differs: done once, however many copies of the call arrive; for a day it says that the
--   latch was opened.
local latch, ended, receipt = KEYS[1], KEYS[2], KEYS[3]
local found = redis.pcall('GET', latch)
if type(found) == 'table' then return {4, nonce, now, found.err} end
if found and not is_whole(found) then return {4, nonce, now, 'its value is no number'} end
local before = done_before(receipt, ARGV[3])
if before then return {1, nonce, now, before} end
if not found then return {0, nonce, now} end
local left = math.max(tonumber(found) - 1, 0)
local wrong = left > 0 and forbidden('DECRBY', latch, 1) or left == 0 and forbidden('DEL', latch)
if wrong then return {6, nonce, now, wrong} end
-- The first write is one that is never refused for lack of memory: then Redis lets the others of this script through too.
-- And it deletes nothing: while its slot moves, a key that is gone can't be written again.
redis.call('PEXPIRE', receipt, ARGV[4])
local refused = write_receipt(receipt, ARGV[3], left, 1, ARGV[4], redis.call('GET', ended) or '')
if refused then return {6, nonce, now, refused} end
if left > 0 then
  redis.call('DECRBY', latch, 1)
  return {1, nonce, now, left}
end
redis.call('DEL', latch)
redis.call('SET', ended, time[1] .. '.' .. time[2] .. ' opened', 'PX', 86400000)
announce('0')
return {1, nonce, now, 0}

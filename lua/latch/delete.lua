-- latch/delete.lua: end a latch before its count is zero.
-- KEYS[1] latch  string  the count
-- KEYS[2] ended  string  when and how the last latch of this name ended
-- KEYS[3] receipt  string  what this call did (once.lua)
-- ARGV[3] call  ARGV[4] receipt_ms
-- Announces as announce.lua.
-- Returns {1, nonce, now} deleted; {0, nonce, now} there is no latch; {4, nonce, now, error} another type;
--   {6, nonce, now, error} refused.
-- Redisson: RedissonCountDownLatch.deleteAsync. Differs: sends `0`, so that waiters look again (Redisson's `1` leaves its waiters
--   asleep); for a day it says that the latch was deleted.
local latch, ended, receipt = KEYS[1], KEYS[2], KEYS[3]
local found = redis.pcall('GET', latch)
if type(found) == 'table' then return {4, nonce, now, found.err} end
if found and not is_whole(found) then return {4, nonce, now, 'its value is no number'} end
if done_before(receipt, ARGV[3]) then return {1, nonce, now} end
if not found then return {0, nonce, now} end
local wrong = forbidden('DEL', latch)
if wrong then return {6, nonce, now, wrong} end
-- The first write is one that is never refused for lack of memory: then Redis lets the others of this script through too.
-- And it deletes nothing: while its slot moves, a key that is gone can't be written again.
redis.call('PEXPIRE', receipt, ARGV[4])
local refused = write_receipt(receipt, ARGV[3], 1, 0, ARGV[4])
if refused then return {6, nonce, now, refused} end
redis.call('DEL', latch)
redis.call('SET', ended, time[1] .. '.' .. time[2] .. ' deleted', 'PX', 86400000)
announce('0')
return {1, nonce, now}

-- latch/cancel.lua: undo a call of count_down, if its latch is still there, and keep copies of it that come later from
--   counting.
-- KEYS[1] latch  string  the count
-- KEYS[2] ended  string  when and how the last latch of this name ended
-- KEYS[3] receipt  string  what that call did (once.lua)
-- ARGV[3] call  ARGV[4] receipt_ms
-- Returns {1, nonce, now} undone; {0, nonce, now} it had counted nothing, or its latch has ended since;
--   {4, nonce, now, error} another type; {6, nonce, now, error} refused.
-- Redisson: has none; a count whose answer was lost may be done twice there.
local latch, ended, receipt = KEYS[1], KEYS[2], KEYS[3]
local found = redis.pcall('GET', latch)
if type(found) == 'table' then return {4, nonce, now, found.err} end
local before, back, of = done_before(receipt, ARGV[3])
local undoes = before and found and of == (redis.call('GET', ended) or '')
local wrong = undoes and forbidden('INCRBY', latch, back)
if wrong then return {6, nonce, now, wrong} end
-- The first write is one that is never refused for lack of memory: then Redis lets the others of this script through too.
-- And it deletes nothing: while its slot moves, a key that is gone can't be written again.
redis.call('PEXPIRE', receipt, ARGV[4])
local refused = write_receipt(receipt, ARGV[3], 0, 0, ARGV[4])
if refused then return {6, nonce, now, refused} end
if not undoes then return {0, nonce, now} end
redis.call('INCRBY', latch, back)
return {1, nonce, now}

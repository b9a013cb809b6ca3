-- latch/set.lua: make a latch, unless there is one.
-- KEYS[1] latch  string  the count
-- KEYS[2] receipt  string  what this call did (once.lua)
-- ARGV[3] call  ARGV[4] receipt_ms  ARGV[5] count
-- Announces as announce.lua.
-- Returns {1, nonce, now} made; {0, nonce, now} there is one; {4, nonce, now, error} another type; {6, nonce, now, error} refused.
-- Redisson: RedissonCountDownLatch.trySetCountAsync. Differs: done once, however many copies of the call arrive.
local latch, receipt = KEYS[1], KEYS[2]
local found = redis.pcall('GET', latch)
if type(found) == 'table' then return {4, nonce, now, found.err} end
if found and not is_whole(found) then return {4, nonce, now, 'its value is no number'} end
if done_before(receipt, ARGV[3]) then return {1, nonce, now} end
if found then return {0, nonce, now} end
local refused = write_receipt(receipt, ARGV[3], 1, 0, ARGV[4])
if refused then return {6, nonce, now, refused} end
redis.call('SET', latch, ARGV[5])
announce('1')
return {1, nonce, now}

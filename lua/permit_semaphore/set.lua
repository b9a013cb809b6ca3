-- permit_semaphore/set.lua: set how many permits there are in all, free and taken.
-- KEYS[1] permits  string  how many are free
-- KEYS[2] expiries  zset  permit -> epoch milliseconds
-- KEYS[3] receipt  string  what this call did (once.lua)
-- ARGV[3] call  ARGV[4] receipt_ms  ARGV[5] how many
-- Announces as announce.lua.
-- Returns {1, nonce, now} set; {4, nonce, now, error} another type; {6, nonce, now, error} refused.
-- Redisson: RedissonPermitExpirableSemaphore.setPermitsAsync. Differs: done once, however many copies of the call arrive.
local permits, expiries, receipt = KEYS[1], KEYS[2], KEYS[3]
local found = redis.pcall('GET', permits)
if type(found) == 'table' then return {4, nonce, now, found.err} end
if found and not is_whole(found) then return {4, nonce, now, 'its value is no number'} end
-- Expired permits count as taken until a call frees them.
local taken = redis.pcall('ZCARD', expiries)
if type(taken) == 'table' then return {4, nonce, now, taken.err} end
if done_before(receipt, ARGV[3]) then return {1, nonce, now} end
-- The receipt says that there is nothing to undo: to set it again does no harm.
local by = ARGV[5] - taken - (found or 0)
local wrong = forbidden('INCRBY', permits, 1)
if wrong then return {6, nonce, now, wrong} end
local refused = write_receipt(receipt, ARGV[3], 1, 0, ARGV[4])
if refused then return {6, nonce, now, refused} end
local value = redis.call('INCRBY', permits, string.format('%.0f', by))
if value > 0 and by > 0 then announce(string.format('%.0f', value)) end
return {1, nonce, now}

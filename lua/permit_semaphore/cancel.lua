-- permit_semaphore/cancel.lua: undo a call of acquire: give its permits back, and keep copies of it that come later from
--   taking them.
-- KEYS[1] permits  string  how many are free
-- KEYS[2] expiries  zset  permit -> epoch milliseconds
-- KEYS[3] receipt  string  what that call did (once.lua)
-- ARGV[3] call  ARGV[4] receipt_ms  ARGV[5] ids, all that it wanted
-- Announces as announce.lua.
-- Returns {1, nonce, now} given back; {0, nonce, now} it had taken none; {4, nonce, now, error} another type;
--   {6, nonce, now, error} refused.
-- Redisson: has none; permits that a lost answer took stay taken for their lease there.
local permits, expiries, receipt = KEYS[1], KEYS[2], KEYS[3]
local found = redis.pcall('GET', permits)
if type(found) == 'table' then return {4, nonce, now, found.err} end
local wrong = forbidden('INCRBY', permits, 1) or forbidden('SET', receipt, '')
if wrong then return {6, nonce, now, wrong} end
local removed = redis.pcall('ZREM', expiries, unpack(raw_ids(ARGV[5])))
if type(removed) == 'table' then return {4, nonce, now, removed.err} end
local value = removed > 0 and found and redis.call('INCRBY', permits, removed)
local refused = write_receipt(receipt, ARGV[3], 0, 0, ARGV[4])
if refused then return {6, nonce, now, refused} end
if not value then return {0, nonce, now} end
if value > 0 then announce(string.format('%.0f', value)) end
return {1, nonce, now}

-- permit_semaphore/release.lua: give back those of some permits that have not expired.
-- KEYS[1] permits  string  how many are free
-- KEYS[2] expiries  zset  permit -> epoch milliseconds
-- KEYS[3] receipt  string  what this call did (once.lua)
-- ARGV[3] call  ARGV[4] receipt_ms  ARGV[5] ids  ARGV[6] 1: all or none
-- Announces as announce.lua.
-- Returns {1, nonce, now, count} how many; {3, nonce, now} none, or not all; {4, nonce, now, error} another type;
--   {6, nonce, now, error} refused.
-- Redisson: RedissonPermitExpirableSemaphore.tryReleaseAsync. Differs: done once, however many copies of
--   the call arrive; the server's clock; one id or many, the message is what is free.
local permits, expiries, receipt = KEYS[1], KEYS[2], KEYS[3]
local found = redis.pcall('GET', permits)
if type(found) == 'table' then return {4, nonce, now, found.err} end
local before = done_before(receipt, ARGV[3])
if before then return {1, nonce, now, before} end
local held = redis.pcall('ZCARD', expiries)
if type(held) == 'table' then return {4, nonce, now, held.err} end
local ids = raw_ids(ARGV[5])
local all, count = live(expiries, ids)
if count == 0 or ARGV[6] == '1' and not all then return {3, nonce, now} end
local wrong = forbidden('INCRBY', permits, 1) or forbidden('SET', receipt, '')
if wrong then return {6, nonce, now, wrong} end
local removed = redis.call('ZREM', expiries, unpack(ids))
-- A semaphore that is gone has no count to add to.
local value = found and redis.call('INCRBY', permits, removed)
local refused = write_receipt(receipt, ARGV[3], count, 0, ARGV[4])
if refused then return {6, nonce, now, refused} end
if value and value > 0 then announce(string.format('%.0f', value)) end
return {1, nonce, now, count}

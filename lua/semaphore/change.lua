-- semaphore/change.lua: add permits, or take some away whether they are free or not.
-- KEYS[1] permits  string  how many are free
-- KEYS[2] made  string  which semaphore of this name it is, where lockson made it: the receipt and the number of the call
--   that did
-- KEYS[3] receipt  string  what this call did (once.lua)
-- ARGV[3] call  ARGV[4] receipt_ms  ARGV[5] how many, below zero to take away
-- ARGV[6] when: `always`; `exists`, if there is such a semaphore; `absent`, if there is none; `same`, if it is the one that
--   ARGV[7] says
-- Announces as announce.lua.
-- Returns {1, nonce, now} changed; {0, nonce, now} that is not so, and nothing was changed; {4, nonce, now, error} another type;
--   {6, nonce, now, error} refused.
-- Redisson: RedissonSemaphore.releaseAsync, releaseIfExistsAsync, addPermitsAsync, trySetPermitsAsync. Differs: done once,
--   however many copies of the call arrive; keeps the TTL, sends no number below 1 (Java's listener throws on it).
local permits, made, receipt = KEYS[1], KEYS[2], KEYS[3]
local mode = ARGV[6]
local found = redis.pcall('GET', permits)
if type(found) == 'table' then return {4, nonce, now, found.err} end
if found and not is_whole(found) then return {4, nonce, now, 'its value is no number'} end
if done_before(receipt, ARGV[3]) then return {1, nonce, now} end
if mode == 'absent' and found then return {0, nonce, now} end
if (mode == 'exists' or mode == 'same') and not found then
  redis.call('DEL', made)
  return {0, nonce, now}
end
-- Permits of a semaphore that is gone are not given to the next one of its name.
if mode == 'same' and (redis.call('GET', made) or 'none') ~= ARGV[7] then return {0, nonce, now} end
-- Java counts no further. Permits that are given back are counted all the same.
if mode ~= 'exists' and mode ~= 'same' and (found or 0) + ARGV[5] > 2147483647 then
  return {6, nonce, now, 'ERR there would be more than 2147483647 free permits'}
end
local wrong = forbidden('SET', receipt, '')
if wrong then return {6, nonce, now, wrong} end
-- The first write is one that is never refused for lack of memory: then Redis lets the others of this script through too.
-- And it deletes nothing: while its slot moves, a key that is gone can't be written again.
redis.call('PEXPIRE', receipt, ARGV[4])
local value = redis.pcall('INCRBY', permits, ARGV[5])
if type(value) == 'table' then return {6, nonce, now, value.err} end
-- To make a semaphore is not undone: that would leave an empty one, which nobody could set.
local back = mode == 'absent' and 0 or -ARGV[5]
if not found then redis.call('SET', made, receipt .. '#' .. ARGV[3]) end
local refused = write_receipt(receipt, ARGV[3], 1, back, ARGV[4], redis.call('GET', made) or 'none')
if refused then
  redis.call('INCRBY', permits, string.format('%.0f', -tonumber(ARGV[5])))
  return {6, nonce, now, refused}
end
if value > 0 and tonumber(ARGV[5]) > 0 then announce(string.format('%.0f', value)) end
return {1, nonce, now}

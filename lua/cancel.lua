-- cancel.lua: undo a call that changed how many permits are free, and keep copies of it that come later from doing it.
-- KEYS[1] number  string  free permits
-- KEYS[2] made  string  which semaphore of this name it is, where lockson made it
-- KEYS[3] receipt  string  what that call did (once.lua)
-- ARGV[3] call  ARGV[4] receipt_ms
-- Announces as announce.lua.
-- Returns {1, nonce, now} undone; {0, nonce, now} it had done nothing; {4, nonce, now, error} another type;
--   {6, nonce, now, error} refused.
-- Redisson: has none; permits that a lost answer took stay taken there.
local number, made, receipt = KEYS[1], KEYS[2], KEYS[3]
local found = redis.pcall('GET', number)
if type(found) == 'table' then return {4, nonce, now, found.err} end
local before, back, of = done_before(receipt, ARGV[3])
-- Of a semaphore that the call made nothing may be left but what others did with it.
local makes = of == receipt .. '#' .. ARGV[3]
local wrong = before and (forbidden('INCRBY', number, back) or makes and forbidden('DEL', number, made))
if wrong then return {6, nonce, now, wrong} end
-- The first write is one that is never refused for lack of memory: then Redis lets the others of this script through too.
-- And it deletes nothing: while its slot moves, a key that is gone can't be written again.
redis.call('PEXPIRE', receipt, ARGV[4])
local refused = write_receipt(receipt, ARGV[3], 0, 0, ARGV[4])
if refused then return {6, nonce, now, refused} end
if not before or before == 0 then return {0, nonce, now} end
if found and of == (redis.call('GET', made) or 'none') then
  local value = redis.call('INCRBY', number, back)
  -- An empty one could be set by nobody.
  if value == 0 and makes then redis.call('DEL', number, made) end
  if value > 0 and tonumber(back) > 0 then announce(string.format('%.0f', value)) end
end
return {1, nonce, now}

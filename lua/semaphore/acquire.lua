-- semaphore/acquire.lua: take permits for takers who wait together, in their order: for the first, and for as many more as fit.
-- KEYS[1] permits  string  how many are free
-- KEYS[2] made  string  which semaphore of this name it is, where lockson made it: the receipt and the number of the call
--   that did; deleted when a call finds the semaphore gone
-- KEYS[3] receipt  string  what this call did (once.lua)
-- ARGV[3] call  ARGV[4] receipt_ms  ARGV[i] from 5 on: what each taker wants, a number or `all`
-- Returns {1, nonce, now, served, taken, made} how many takers got theirs, the permits of all of them, and which semaphore it
--   is (`none`: lockson did not make it); {0, nonce, now} not enough for the first;
--   {4, nonce, now, error} another type; {6, nonce, now, error} refused.
-- Redisson: RedissonSemaphore.tryAcquireAsync, drainPermitsAsync. Differs: many takers in one script; done once,
--   however many copies of the call arrive.
local permits, made, receipt = KEYS[1], KEYS[2], KEYS[3]
local found = redis.pcall('GET', permits)
if type(found) == 'table' then return {4, nonce, now, found.err} end
if found and not is_whole(found) then return {4, nonce, now, 'its value is no number'} end
local before, back, of = done_before(receipt, ARGV[3])
if before then
  if before == 0 then return {0, nonce, now} end
  -- Found done, it writes all the same, for a replica to confirm.
  redis.call('PEXPIRE', receipt, ARGV[4])
  return {1, nonce, now, before, back, of}
end
local which = redis.call('GET', made) or 'none'
if not found and which ~= 'none' then redis.call('DEL', made) end
local free, served, taken = tonumber(found or 0), 0, 0
for i = 5, #ARGV do
  local wanted = ARGV[i]
  -- Java may have added more than a call of ours counts.
  if wanted == 'all' then wanted = math.min(math.max(free - taken, 1), 2147483647) end
  if taken + wanted > free then break end
  served, taken = served + 1, taken + wanted
end
if served == 0 then return {0, nonce, now} end
local refused = write_receipt(receipt, ARGV[3], served, taken, ARGV[4], which)
if refused then return {6, nonce, now, refused} end
local left = redis.pcall('DECRBY', permits, string.format('%.0f', taken))
if type(left) == 'table' then
  redis.call('DEL', receipt)
  return {6, nonce, now, left.err}
end
return {1, nonce, now, served, string.format('%.0f', taken), which}

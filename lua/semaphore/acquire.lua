-- semaphore/acquire.lua: take permits for takers who wait together, in their order: for the first, and for as many more as fit.
-- KEYS[1] permits  string  how many are free
-- KEYS[2] life  string  tells the semaphore from others of its name: the receipt and the call by which lockson made it; deleted
--   when a call finds the semaphore gone
-- KEYS[3] receipt  string  what this call did (once.lua)
-- ARGV[3] call  ARGV[4] receipt_ms  ARGV[i] from 5 on: what each taker wants, a number or `all`
-- Returns {1, nonce, now, served, taken, life} how many takers got theirs, the permits of all of them, and the semaphore's life
--   (`none`: lockson did not make it); {0, nonce, now} not enough for the first;
--   {4, nonce, now, error} another type; {6, nonce, now, error} refused.
-- Redisson: RedissonSemaphore.tryAcquireAsync, drainPermitsAsync. Differs: many takers in one script; done once,
--   however many copies of the call arrive.
local permits, life, receipt = KEYS[1], KEYS[2], KEYS[3]
local found = redis.pcall('GET', permits)
if type(found) == 'table' then return {4, nonce, now, found.err} end
if found and not is_whole(found) then return {4, nonce, now, 'its value is no number'} end
local before, back, of = done_before(receipt, ARGV[3])
if before then
  if before == 0 then return {0, nonce, now} end
  return {1, nonce, now, before, back, of}
end
local alive = redis.call('GET', life) or 'none'
if not found and alive ~= 'none' then redis.call('DEL', life) end
local free, served, taken = tonumber(found or 0), 0, 0
for i = 5, #ARGV do
  local wanted = ARGV[i]
  if wanted == 'all' then wanted = math.max(free - taken, 1) end
  if taken + wanted > free then break end
  served, taken = served + 1, taken + wanted
end
if served == 0 then return {0, nonce, now} end
local refused = write_receipt(receipt, ARGV[3], served, taken, ARGV[4], alive)
if refused then return {6, nonce, now, refused} end
local left = redis.pcall('DECRBY', permits, string.format('%.0f', taken))
if type(left) == 'table' then
  redis.call('DEL', receipt)
  return {6, nonce, now, left.err}
end
return {1, nonce, now, served, string.format('%.0f', taken), alive}

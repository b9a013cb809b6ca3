-- permit_semaphore/acquire.lua: take permits for takers who wait together, in their order: for the first, and for as many more
--   as fit. Expired permits are freed.
-- KEYS[1] permits  string  how many are free
-- KEYS[2] expiries  zset  permit -> epoch milliseconds
-- KEYS[3] receipt  string  what this call did (once.lua)
-- ARGV[3] call  ARGV[4] receipt_ms  ARGV[i] from 5 on: what each taker wants: `lease_ms ids`
-- Announces as announce.lua.
-- Returns {1, nonce, now, served} how many takers got theirs; {0, nonce, now, ms} not enough for the first (ms until the next permit
--   expires, -1 if none does, -3 to ask again at once: more have expired than one call frees); {4, nonce, now, error} another type;
--   {6, nonce, now, error} refused.
-- Redisson: RedissonPermitExpirableSemaphore.tryAcquireAsync. Differs: many takers in one script; done once, however
--   many copies of the call arrive; the server's clock; expired permits are freed, needed or not.
local permits, expiries, receipt = KEYS[1], KEYS[2], KEYS[3]
local found = redis.pcall('GET', permits)
if type(found) == 'table' then return {4, nonce, now, found.err} end
if found and not is_whole(found) then return {4, nonce, now, 'its value is no number'} end
local expired = redis.pcall('ZCOUNT', expiries, '-inf', string.format('%.0f', now))
if type(expired) == 'table' then return {4, nonce, now, expired.err} end
local before = done_before(receipt, ARGV[3])
if before and before > 0 then
  -- It writes all the same, for a replica to confirm.
  redis.call('PEXPIRE', receipt, ARGV[4])
  return {1, nonce, now, before}
end
if before or not found then return {0, nonce, now, -1} end
local wrong = expired > 0 and forbidden('INCRBY', permits, 1)
if wrong then return {6, nonce, now, wrong} end
local free, freed, left, served, taken, entries = tonumber(found), 0, MOST, 0, {}, {}
-- Frees expired permits, as many as this call may still touch (rule 12).
local function free_expired()
  local count = math.min(expired, left)
  if count == 0 then return end
  redis.call('ZREMRANGEBYRANK', expiries, 0, count - 1)
  free = redis.call('INCRBY', permits, count)
  expired, left, freed = expired - count, left - count, freed + count
end
local first
for i = 5, #ARGV do
  local lease, digits = string.match(ARGV[i], '^(%d+) (%x+)$')
  local count = #digits / 32
  if not first and count > free then free_expired() end
  first = first or count
  if #taken + count > free or count > left then break end
  served, left = served + 1, left - count
  for _, id in ipairs(raw_ids(digits)) do
    taken[#taken + 1] = id
    entries[#entries + 1] = string.format('%.0f', now + lease)
    entries[#entries + 1] = id
  end
end
if served > 0 then free_expired() end
if freed > 0 and free > #taken then announce(string.format('%.0f', free - #taken)) end
if served == 0 then
  if expired > 0 or first <= free then return {0, nonce, now, -3} end
  local expiry = redis.call('ZRANGE', expiries, 0, 0, 'WITHSCORES')[2]
  -- Redisson writes this for a permit that never expires.
  if not expiry or tonumber(expiry) >= 922337203685477 then return {0, nonce, now, -1} end
  return {0, nonce, now, tonumber(expiry) - now}
end
local ttl = redis.call('PTTL', permits)
wrong = ttl >= 0 and forbidden('PEXPIRE', expiries, ttl)
if wrong then return {6, nonce, now, wrong} end
local refused = write_receipt(receipt, ARGV[3], served, 0, ARGV[4])
if refused then return {6, nonce, now, refused} end
local added = redis.pcall('ZADD', expiries, unpack(entries))
local left = type(added) == 'table' and added or redis.pcall('DECRBY', permits, #taken)
if type(left) == 'table' then
  redis.call('DEL', receipt)
  if type(added) == 'number' then redis.call('ZREM', expiries, unpack(taken)) end
  return {6, nonce, now, left.err}
end
if ttl >= 0 then redis.call('PEXPIRE', expiries, math.max(ttl, 1)) end
return {1, nonce, now, served}

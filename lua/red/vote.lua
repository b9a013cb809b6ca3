-- red/vote.lua: take a red lock on this server, one of several that vote, and say since when it has lost no data. The lock
-- is taken by the acquire script of its kind, which is the body of the function acquire.
-- A marker says since when: the first vote of a run of the server writes it, and with the data it is lost. One of another
-- run came with a copy of the data, and one ahead of the clock tells nothing: both are written anew. The marker comes
-- before the lock, as a call that is refused must not have taken it.
-- KEYS[#KEYS] boot  string  since_ms run_id; no TTL
-- Returns {6, nonce, now, error} refused; otherwise what the acquire script does, and where that is held or busy, at the
--   end the run_id of the server and since_ms.
-- Redisson: its red lock counts the votes of servers that have just lost their data.
local boot = KEYS[#KEYS]
local server = redis.pcall('INFO', 'server')
if type(server) == 'table' then return {6, nonce, now, server.err} end
local run = string.match(server, 'run_id:(%w+)') or ''
local found = redis.pcall('GET', boot)
if type(found) == 'table' then return {6, nonce, now, found.err} end
local since, of = string.match(found or '', '^(%d+) (%w+)$')
since = tonumber(since)
if of ~= run or since > now then
  since = now
  local set = redis.pcall('SET', boot, string.format('%.0f %s', now, run))
  if set.err then return {6, nonce, now, set.err} end
end
local vote = acquire()
if vote[1] < 2 then
  vote[#vote + 1] = run
  vote[#vote + 1] = since
end
return vote

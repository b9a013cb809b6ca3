-- red/vote.lua: stands behind the acquire script of a kind, which is the body of the function acquire, and adds to its
-- answer since when the server has lost nothing: by a marker that the first vote of a run writes, and that goes with
-- the data. One of another run is a copy, and one ahead of the clock tells nothing: both are written anew. It comes
-- first, as what is refused must not have taken the lock.
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

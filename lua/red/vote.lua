-- red/vote.lua: take a red lock on this server, one of several that vote, and say since when it has lost no data. The lock
-- is taken by the acquire script of its kind, which is the body of the function acquire. The marker comes before the lock,
-- as a call that is refused must not have taken it.
-- ARGV[#ARGV] boot: the key of the marker, as boot.lua has it; not declared, as in a cluster it may be in another slot
-- Returns {6, nonce, now, error} refused; {1, nonce, now, run_id, since_ms} held; otherwise what the acquire script does,
--   and where that is busy, at the end the run_id of the server and since_ms.
-- Redisson: its red lock counts the votes of servers that have just lost their data.
local since, run = whole_since(ARGV[#ARGV])
if not since then return {6, nonce, now, run} end
local vote = acquire()
if type(vote) == 'string' then vote = {1, nonce, now} end
if vote[1] < 2 then
  vote[#vote + 1] = run
  vote[#vote + 1] = since
end
return vote

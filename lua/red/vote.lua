-- red/vote.lua: stands behind the acquire script of a kind, which is the body of the function acquire, and adds to its
-- answer whose it is: whoever counts a vote has to know how long the server has been running. It looks first, as what is
-- refused must have written nothing.
-- Returns {6, nonce, now, error} refused; otherwise what the acquire script does, and where that is held or busy, at the
--   end the run_id of the server and its uptime in seconds.
-- Redisson: its red lock counts the votes of servers that have just lost their data.
local server = redis.pcall('INFO', 'server')
if type(server) == 'table' then return {6, nonce, now, server.err} end
local vote = acquire()
if vote[1] < 2 then
  vote[#vote + 1] = string.match(server, 'run_id:(%w+)')
  vote[#vote + 1] = tonumber(string.match(server, 'uptime_in_seconds:(%d+)'))
end
return vote

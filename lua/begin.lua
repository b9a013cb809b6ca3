-- begin.lua: stands before every script, and stops a copy of a call that arrives too late: a broken connection may have
-- held it back until its client gave up (rule 6 of docs/PROTOCOL.md).
-- ARGV[1] nonce: the client knows by it whose answer this is  ARGV[2] not_after: too late is later than this, by this
--   server's clock in ms
-- Every answer begins with a status, the nonce, and the server's time in ms. The statuses are 0 busy, or nothing to do;
--   1 done; 2 late; 3 not held; 4 a key of another type; 5 a count that this call can't have met; 6 the server refused.
local nonce, not_after = ARGV[1], tonumber(ARGV[2])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if now > not_after then return {2, nonce, now} end

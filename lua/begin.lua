-- begin.lua: stands before every script, and stops a copy of a call that arrives too late: a broken connection may have
-- held it back until its client gave up (rule 6 of docs/PROTOCOL.md).
-- ARGV[1] nonce: the client knows by it whose answer this is  ARGV[2] not_after: too late is later than this, by this
--   server's clock in ms
-- Every answer begins with a status, the nonce, and the server's time: in ms, or as `seconds:microseconds`, both whole
--   numbers. The statuses are 0 busy, or nothing to do; 1 done; 2 late; 3 not held; 4 a key of another type; 5 a count that
--   this call can't have met; 6 the server refused. What is answered most often is one text with blanks between, as an
--   array takes the server longer.
local nonce, not_after = ARGV[1], ARGV[2]
local time = redis.call('TIME')
local at = time[1] .. ':' .. time[2]
-- As numbers: texts go by the server's locale, and who knows no time of this server yet sends fewer digits, and is late.
if time[1] * 1000 + time[2] / 1000 >= not_after + 1 then return {2, nonce, at} end

-- quarantine.lua: say since when the server may have lost nothing, by a marker as boot.lua has it. Where there is none, no
-- other server had this one's place as far as anybody knows, and it is as old as its process.
-- KEYS[1] quarantine  string  since_ms run_id; no TTL
-- Returns {1, nonce, now, run_id, since_ms}; {6, nonce, now, error} refused.
-- Redisson: has nothing like it.
local since, run = whole_since(KEYS[1], true)
if not since then return {6, nonce, now, run} end
return {1, nonce, now, run, since}

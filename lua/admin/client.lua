-- admin/client.lua: what a client said of itself last. Writes nothing.
-- KEYS[1] client  string  as admin/present.lua has it
-- Returns {1, nonce, now, text}: an empty one where nothing was said, or that is too old to be true. {6, nonce, now, error} the
--   server refused.
-- Redisson: has none.
local client = KEYS[1]
local text = redis.pcall('GET', client)
if type(text) == 'table' then return {6, nonce, now, text.err} end
return {1, nonce, now, text or ''}

-- grouped/inspect.lua: who holds a value. Writes nothing.
-- KEYS as grouped/begin.lua
-- ARGV[3] value
-- Returns {1, nonce, now, left_ms, owner, count} held; {0, nonce, now} free; {4, nonce, now, error} another type.
-- Redisson: isHeldByThread. Differs: it is of this value.
local holder, found, left, gone, wrong = look()
if wrong then return {4, nonce, now, wrong} end
if not holder then return {0, nonce, now} end
return {1, nonce, now, left, holder, found}

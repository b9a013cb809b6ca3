-- admin/present.lua: says who a client is, and what it holds, until that is too old to be true.
-- KEYS[1] client  string  when it was said last (epoch ms), and what
-- ARGV[3] ttl_ms  ARGV[4] text
-- Returns {1, nonce, now}.
-- Redisson: has none.
local client = KEYS[1]
redis.call('SET', client, now .. ' ' .. ARGV[4], 'PX', ARGV[3])
return {1, nonce, now}

-- plain/acquire.lua: take the lock for one hold, once: another copy of the call finds its token, and changes nothing.
-- KEYS[1] lock  string  the token of the hold
-- ARGV[3] token  ARGV[4] lease_ms
-- Returns `1 nonce at` held, or {1, nonce, at}; {0, nonce, at, ttl_ms} busy; {4, nonce, at, error} another type.
-- Redisson: has none. To redsync, node-redlock, redis-py and rslock it is their own SET key token NX PX.
local lock = KEYS[1]
local token, lease = ARGV[3], ARGV[4]
if redis.call('SET', lock, token, 'NX', 'PX', lease) then return '1 ' .. nonce .. ' ' .. at end
local found = redis.pcall('GET', lock)
if type(found) == 'table' then return {4, nonce, at, found.err} end
local ttl = redis.call('PTTL', lock)
if found ~= token then return {0, nonce, at, ttl} end
-- An earlier copy did it. It writes all the same, for a replica to confirm.
redis.call('PEXPIRE', lock, math.max(ttl, lease + 0))
return {1, nonce, at}

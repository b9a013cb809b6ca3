-- plain/acquire.lua: take the lock for one hold, once: another copy of the call finds its token, and changes nothing.
-- KEYS[1] lock  string  the token of the hold
-- ARGV[3] token  ARGV[4] lease_ms
-- Returns {1, nonce, now} held; {0, nonce, now, ttl_ms} busy; {4, nonce, now, error} another type.
-- Redisson: has none. To redsync, node-redlock, redis-py and rslock it is their own SET key token NX PX.
local lock = KEYS[1]
local token, lease = ARGV[3], tonumber(ARGV[4])
local found = redis.pcall('GET', lock)
if type(found) == 'table' then return {4, nonce, now, found.err} end
if found == false then
  redis.call('SET', lock, token, 'PX', ARGV[4])
  return {1, nonce, now}
end
local ttl = redis.call('PTTL', lock)
if found ~= token then return {0, nonce, now, ttl} end
-- An earlier copy did it. It writes all the same, for a replica to confirm.
redis.call('PEXPIRE', lock, math.max(ttl, lease))
return {1, nonce, now}

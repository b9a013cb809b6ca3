-- admin/server.lua: what a server says of itself, and which rights this user lacks on it. Writes nothing.
-- ARGV[3] a name that nobody uses
-- Returns {1, nonce, now, info, kind1, commands1 ..}: sections of INFO (empty where it is refused), and of each kind of lock the
--   commands that this user may not call.
-- Redisson: has none.
local name = ARGV[3]
local needed = {
  'lock', 'HGET HSET HINCRBY HDEL HEXISTS HSCAN EXISTS PTTL PEXPIRE DEL UNLINK',
  'fenced', 'GET SET',
  'read/write', 'HLEN HGETALL SET ZADD ZREM ZCOUNT ZRANGE ZSCORE',
  'fair', 'HMGET LINDEX LLEN LPOP LPOS LRANGE LREM RPUSH ZADD ZCARD ZINCRBY ZRANGE ZREM ZSCORE',
  'plain', 'GET SET',
  'semaphore', 'DECRBY GET INCRBY SET',
  'permits', 'DECRBY GET INCRBY SET ZADD ZCARD ZCOUNT ZMSCORE ZRANGE ZREM ZREMRANGEBYRANK',
  'latch', 'DECRBY GET SET',
  'admin', 'SCAN TYPE STRLEN HSTRLEN HRANDFIELD HLEN ZRANGEBYSCORE',
}
local text = redis.pcall('INFO', 'server', 'clients', 'memory', 'persistence', 'stats', 'replication')
local reply = {1, nonce, now, type(text) == 'string' and text or ''}
for at = 1, #needed, 2 do
  local lacks = {}
  for command in string.gmatch(needed[at + 1], '%u+') do
    if not redis.acl_check_cmd(command, name, '1', '1') then lacks[#lacks + 1] = command end
  end
  if #lacks > 0 then reply[#reply + 1], reply[#reply + 2] = needed[at], table.concat(lacks, ' ') end
end
return reply

//! What the embedded server and a real one are asked, for `tests/embedded.rs`.

/// The keys, named by the type that they mostly have.
pub const KEYS: &[&str] = &["str1", "str2", "hash1", "hash2", "list1", "list2", "zset1", "zset2", "none"];

/// Commands, with placeholders in capitals.
#[rustfmt::skip]
pub const TEMPLATES: &[&str] = &[
    "get STR", "set STR TEXT", "set STR TEXT SETOPT SETOPT", "set STR INT SETOPT", "set ANY TEXT EX SECS",
    "set STR TEXT PX TTL", "set STR INT PXAT AT", "set STR TEXT SETOPT EXPIRE TTL", "set STR TEXT EXAT AGO",
    "getdel STR", "setnx STR INT", "incr STR", "decr STR", "incrby STR INT", "decrby STR INT", "del ANY",
    "del ANY ANY", "unlink ANY", "exists ANY ANY", "type ANY", "expire ANY SECS", "expire ANY SECS COND",
    "pexpire ANY TTL", "pexpire ANY TTL COND", "pexpire ANY TTL COND COND", "pexpireat ANY AT",
    "pexpireat ANY AT COND", "expire ANY AGO", "pexpire ANY AGO", "persist ANY", "pttl ANY", "pttl ANY", "ttl ANY",
    "ttl ANY", "expireat ANY COUNT", "keys PATTERN", "dbsize", "ping", "ping TEXT", "publish TEXT TEXT",
    "spublish TEXT TEXT", "nonsense TEXT INT", "info nonsense", "flushall OPTION", "hget HASH FIELD",
    "hset HASH FIELD TEXT", "hset HASH FIELD INT FIELD TEXT", "hset HASH FIELD TEXT FIELD", "hmset HASH FIELD INT",
    "hsetnx HASH FIELD INT", "hdel HASH FIELD", "hdel HASH FIELD FIELD FIELD", "hexists HASH FIELD", "hgetall HASH",
    "hkeys HASH", "hvals HASH", "hlen HASH", "hincrby HASH FIELD INT", "hincrby HASH FIELD INT",
    "hstrlen HASH FIELD", "strlen STR",
    "hmget HASH FIELD FIELD", "lpush LIST ITEM", "rpush LIST ITEM ITEM", "lpush LIST ITEM ITEM ITEM", "lpop LIST",
    "rpop LIST", "lpop LIST COUNT", "rpop LIST COUNT", "lpop LIST COUNT COUNT", "lrange LIST COUNT COUNT",
    "lrange LIST 0 -1", "lindex LIST COUNT", "lrem LIST COUNT ITEM", "llen LIST", "lpos LIST ITEM",
    "lpos LIST ITEM LPOSOPT COUNT", "lpos LIST ITEM LPOSOPT COUNT LPOSOPT COUNT", "lpos LIST ITEM LPOSOPT",
    "zadd ZSET SCORE ITEM", "zadd ZSET SCORE ITEM SCORE ITEM", "zadd ZSET ZOPT SCORE ITEM",
    "zadd ZSET INCR COND SCORE ITEM", "zadd ZSET SCORE",
    "zadd ZSET ZOPT ZOPT SCORE ITEM SCORE ITEM", "zadd ZSET ZOPT ZOPT SCORE ITEM", "zrem ZSET ITEM ITEM",
    "zmscore ZSET ITEM ITEM", "zscore ZSET ITEM", "zcard ZSET", "zrank ZSET ITEM", "zincrby ZSET SCORE ITEM",
    "zcount ZSET BOUND BOUND",
    "zremrangebyscore ZSET BOUND BOUND", "zremrangebyrank ZSET COUNT COUNT",
    "hscan HASH 0", "zpopmin ZSET", "zpopmin ZSET COUNT", "zpopmin ZSET COUNT COUNT",
    "zrange ZSET COUNT COUNT ROPT", "zrange ZSET COUNT COUNT", "zrange ZSET BOUND BOUND BYSCORE",
    "zrange ZSET BOUND BOUND BYSCORE ROPT", "zrange ZSET BOUND BOUND REV BYSCORE WITHSCORES",
    "zrange ZSET BOUND BOUND BYSCORE LIMIT COUNT COUNT ROPT", "zrange ZSET 0 -1 LIMIT COUNT COUNT",
    "zrangebyscore ZSET BOUND BOUND", "zrangebyscore ZSET BOUND BOUND ROPT",
    "zrangebyscore ZSET -inf +inf WITHSCORES", "zrangebyscore ZSET BOUND BOUND LIMIT COUNT COUNT",
];

/// Whole numbers, and what looks like some.
#[rustfmt::skip]
pub const INTS: &[&str] = &[
    "0", "1", "-1", "7", "-30", "9223372036854775807", "-9223372036854775808", "9223372036854775808", "abc", "",
    "1.5", "+5", "05", " 5", "5 ", "-0", "9007199254740993",
];

/// Times that no key lives to see, and some that are none.
pub const AGO: &[&str] =
    &["0", "-1", "-30", "abc", "", "1.5", "05", "9223372036854775807", "-9223372036854775808", "9223372036854775808"];

/// Strings.
pub const TEXTS: &[&str] = &["a", "", "10", "x y", "ünï", "0", "line\r\nend", "nul\0byte"];

/// Members and fields.
pub const ITEMS: &[&str] = &["a", "b", "c", "d", "a", "b", "ab", "", "10"];

/// Numbers of elements and places in lists.
#[rustfmt::skip]
pub const PATTERNS: &[&str] =
    &["*", "str?", "[hl]*1", "*[^1]", "h\\ash1", "[a-m]*", "[m-a]*", "", "*s*1*", "[", "str[12", "[1-", "*\\"];

pub const COUNTS: &[&str] =
    &["0", "1", "2", "-1", "-2", "3", "-3", "10", "1", "2", "x", "9223372036854775807", "-9223372036854775808"];

/// Scores, and what looks like some.
#[rustfmt::skip]
pub const SCORES: &[&str] = &[
    "0", "1", "2", "2", "3", "-3", "2.5", "0.1", "1e3", "inf", "-inf", "nan", "abc", "", "1e400", "-0", "1e-400", "5.",
    ".5", "+7", " 5", "1e17", "123456789012345678", "1e-5", "0.30000000000000004", "1.7976931348623157e308",
    "infinity",
];

/// Ends of ranges of scores.
#[rustfmt::skip]
pub const BOUNDS: &[&str] = &[
    "0", "1", "(1", "2", "(2", "-inf", "+inf", "(inf", "3", "(", "", "x", "nan", "2.5", "-5", "(-3",
];

/// Scripts whose answers and error texts must be those of a real server, with the keys `s` (string) and `h` (hash).
#[rustfmt::skip]
pub const SCRIPTS: &[&str] = &[
    "return {3.99, -3.99, 1e300, -1e300, 0/0, 2^63, -2^63, 2^53 + 1, -0.5}", "return 3.99", "return", "return nil",
    "return true", "return false", "return 'text'", "return ''", "return {}", "return {1, nil, 3}",
    "return {1, false, 3}", "return {nil, 1}", "return {1, {2, {3, nil, 4}}, 'x'}", "return {ok = 'fine'}",
    "return {err = 'BAD thing'}", "return {err = 'BAD'}", "return {1, {ok = 'fine'}, {err = 'BAD x'}}",
    "return {ok = 'two\\r\\nlines'}", "return {err = 'BAD two\\r\\nlines\\r\\n'}", "return {ok = 5}",
    "return {double = 3.25}", "return {[1] = 'a', x = 'b', [2] = 'c', [4] = 'd'}", "return function() end",
    "return redis.call('GET', 's')", "return redis.call('GET', 'nothing')",
    "return {redis.call('GET', 'nothing'), 1}", "return redis.call('HGET', 's', 'f')",
    "local v = redis.call('HGET', 's', 'f') return v", "return redis.pcall('HGET', 's', 'f')",
    "local e = redis.pcall('HGET', 's', 'f') \
     return {type(e), e.err, tostring(e.ignore_error_stats_update), tostring(e.source)}",
    "local ok, e = pcall(redis.call, 'HGET', 's', 'f') return {tostring(ok), type(e), e.err}",
    "local ok, e = pcall(function() return redis.call('NOPE') end) return {tostring(ok), e.err}",
    "local ok, e = pcall(redis.call, 'HGET', 's', 'f') error(e)",
    "local ok, e = pcall(error, 'plain') return {tostring(ok), e}",
    "local ok, e = xpcall(function() redis.call('GET') end, function(e) return e.err end) return {tostring(ok), e}",
    "\n\nlocal v = redis.call('HGET', 's', 'f')\nreturn v",
    "local function f()\n redis.call('LLEN', 's')\nend\n\nf()", "return redis.call()", "return redis.pcall()",
    "return redis.pcall({})", "return redis.call('GET', nil)", "return redis.call(nil)",
    "return redis.call('GET', true)", "return redis.call('NOPE')", "return redis.call('GET')",
    "return redis.call('HSET', 'h', 'f')", "return redis.call('hincrby', 'h', 'f', 1.5)",
    "return redis.call('HINCRBY', 'h', 'f', 1)", "return redis.call('INCRBY', 's', 2^53)",
    "redis.call('SET', 's', 0.1) return redis.call('GET', 's')",
    "redis.call('SET', 's', 2^63) return redis.call('GET', 's')",
    "redis.call('SET', 's', 1e15) return redis.call('GET', 's')",
    "redis.call('SET', 's', -1/0) return redis.call('GET', 's')",
    "redis.call('SET', 's', 9007199254740993) return redis.call('INCR', 's')",
    "redis.call('SET', 's', '9223372036854775806') return redis.call('INCR', 's')",
    "return redis.call('SET', 's', 'x')", "return redis.call('SET', 's', 'x').ok", "return redis.call('PING')",
    "return redis.call('TYPE', 's')", "return redis.call('TYPE', 's').ok", "return redis.call('HGETALL', 'h')",
    "return redis.call('HMGET', 'h', 'a', 'nothing', 'b')", "return #redis.call('HMGET', 'h', 'nothing', 'a')",
    "return tostring(redis.call('LPOP', 'nothing', 2))", "return redis.call('ZADD', 'z', 1.5, 'a', 'inf', 'b')",
    "return redis.call('ZADD', 'z', 1, 'a') + redis.call('ZCARD', 'z')", "x = 1", "return x", "return x.y",
    "local function f() return x end return f()", "function f() end", "_G.x = 1", "return _G.x", "redis.x = 1",
    "return redis.x", "string.x = 1", "return string.x", "redis = nil", "KEYS = nil",
    "KEYS[1] = 'other' return KEYS", "return {pcall(function() x = 1 end)}",
    "return {pcall(function() return x end)}", "return {pcall(rawset, _G, 'x', 1)}",
    "return {pcall(setmetatable, _G, {})}", "return {pcall(setmetatable, redis, {})}",
    "getmetatable('').__index = nil", "rawset(_G, 'x', 1)", "return getmetatable('').__index == string",
    "return ('abc'):upper()", "return {KEYS, ARGV, #KEYS, #ARGV}", "return {pcall(getfenv, 1)}",
    "return loadstring('return 7')()", "return loadstring('return x')()", "loadstring('x = 1')()",
    "return loadstring('return redis.call(\"GET\", \"s\")')()", "error('boom')", "error('boom', 0)",
    "error('boom', 2)", "error({err = 'MY err'})", "error({err = 'MY err\\r\\n'})", "error(7)", "error(nil)",
    "error(true)", "local t = nil return t.x", "return 1 + nil", "return 1 + {}", "return #5", "return 'a' < 1",
    "return ('x'):nope()", "assert(false)", "assert(nil, 'said so')", "return string.rep()", "return x y",
    "return 'open", "if", "return {unpack({1, 2, 3}, 2)}", "return tostring(print)",
    "return redis.error_reply('My Err')", "return redis.error_reply('MyErr')", "return redis.error_reply('-MyErr')",
    "return redis.error_reply('-My Err\\r\\n')", "return redis.error_reply(5)", "return redis.error_reply()",
    "return redis.error_reply('')", "return redis.status_reply('fine')", "return redis.status_reply()",
    "return redis.status_reply('a', 'b')", "return redis.sha1hex('')", "return redis.sha1hex('abc')",
    "return redis.sha1hex(12)", "return redis.sha1hex()", "return redis.sha1hex(string.rep('x', 200))",
    "return redis.acl_check_cmd('GET', 'x')", "return redis.acl_check_cmd()", "return redis.log()",
    "redis.log(redis.LOG_WARNING, 'x')", "return redis.LOG_NOTICE", "return redis.REDIS_VERSION",
    "return redis.REDIS_VERSION_NUM", "return redis.call('PEXPIRE', 's', 9223372036854775807)",
    "return redis.call('PEXPIRE', 's', '9223372036854775807')",
    "return redis.call('PEXPIRE', 's', 5000000) + redis.call('PTTL', 's')",
    "return redis.call('PUBLISH', 'channel', 'x')",
    "return {tonumber('0x10'), tonumber('1e3'), tonumber(' 5 '), tostring(tonumber('x')), tonumber('z', 36)}",
    "return {string.format('%.17g', 0.1), string.format('%d', 3.7), tostring(1e15), tostring(2^53), 10 .. ''}",
    "local t = {5, 3, 9} table.sort(t) return t",
    "local n = 0 for _ in pairs({a = 1, 2, 3}) do n = n + 1 end return n", "return math.floor(-2.5)",
    "return math.huge", "return {math.max(1, 5), math.abs(-3), 7 % 3, -7 % 3}", "return select('#', nil, nil)",
    "return type(os)", "return type(redis.setresp_)",
];

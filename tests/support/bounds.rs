//! The worst that each script can meet: how to build it, and the call. `tests/bounds.rs` counts what a call touches,
//! `cargo bench -p lockson-benches -- bounds` times it. Rule 12 of docs/PROTOCOL.md.

/// The most elements that one call may touch.
pub const MOST: usize = 500;
/// Calls of each, one behind the other: what one of them leaves, the next one finds.
pub const CALLS: usize = 3;

/// One call of a script that meets something big.
pub struct Bound {
    /// Its file in lua/, without its ending.
    pub script: &'static str,
    pub what: &'static str,
    /// Builds `n` of something, by Lua that knows `n`, `now` and what [`PRELUDE`] has.
    build: &'static str,
    keys: &'static str,
    /// Those behind the first two.
    args: &'static str,
    /// Why more than [`MOST`] may be touched.
    pub exception: Option<&'static str>,
}

const PRELUDE: &str = "local n, time = tonumber(ARGV[1]), redis.call('TIME') local now = time[1] * 1000 \
    local function readers(count, alive) redis.call('HSET', 'x', 'mode', 'read') \
      for i = 1, n do redis.call('HSET', 'x', 'c:' .. i, count) \
        if alive then redis.call('SET', '{x}:c:' .. i .. ':rwlock_timeout:1', '1', 'PX', 600000) end end \
      redis.call('PEXPIRE', 'x', 600000) end \
    local function reader(name, count) redis.call('HSET', 'x', 'mode', 'read', name, count) \
      for i = 1, count do redis.call('SET', '{x}:' .. name .. ':rwlock_timeout:' .. i, '1', 'PX', 600000) end \
      redis.call('PEXPIRE', 'x', 600000) end \
    local function writers() for i = 1, n do redis.call('ZADD', 'w', 1, 'gone:' .. i) end end \
    local function id(i) return string.format('%016d', i) end \
    local function permits(free, expiry) redis.call('SET', 'x', free) \
      for i = 1, n do redis.call('ZADD', '{x}:timeout', expiry, id(i)) end end \
    local function queue(seen) for i = 1, n do local owner = 'c' .. i .. ':' .. i \
        redis.call('RPUSH', 'q', owner) redis.call('ZADD', 't', now + i * 300000, owner) \
        redis.call('ZADD', 's', seen, owner, seen, 'c' .. i) end end ";

const HASH: &str = "for i = 1, n do redis.call('HSET', 'x', 'c:' .. i, 1) end redis.call('PEXPIRE', 'x', 600000)";
const GROUP: &str =
    "local until_then = string.format('%.0f', now + 600000) for i = 1, n do local start = 'v' .. i .. ':o:' \
    redis.call('HSET', 'x', 'v' .. i, 'o', start .. 'expire_time', until_then, start .. 'lock_count', 1) end \
    redis.call('PEXPIRE', 'x', 600000)";
const WRITTEN: &str = "redis.call('HSET', 'x', 'mode', 'write', 'o:write', 1) \
    for i = 1, n do redis.call('HSET', 'x', 'c:' .. i, 1) end redis.call('PEXPIRE', 'x', 600000)";
/// 100 locks, each written by one owner that reads in it, n times and for longer.
const NESTED: &str = "for i = 1, 100 do local x = 'x' .. i local count = math.min(n, 300) \
    redis.call('HSET', x, 'mode', 'write', 'o:write', 1, 'o', count) redis.call('PEXPIRE', x, 30000) \
    for hold = 1, count do redis.call('SET', '{' .. x .. '}:o:rwlock_timeout:' .. hold, '1', 'PX', 30000) end end";
const PARTED: &str = "for i = 1, 100 do local x = 'x' .. i \
    redis.call('HSET', x, 'mode', 'write', 'o:write', 1, 'write_end', '@' .. now + 30000) \
    redis.call('PEXPIRE', x, 60000) end";
const WRITE_IS_OVER: &str = "redis.call('HSET', 'x', 'mode', 'write', 'o:write', 1, 'write_end', '@9') \
    for i = 1, math.min(n, 97) do redis.call('HSET', 'x', 'c:' .. i, 1) end redis.call('PEXPIRE', 'x', 600000)";
const LIVING: &str = "readers(1, true)";
const DEAD: &str = "readers(1, false) writers()";
const DEAD_AND_OWN: &str = "readers(1, false) reader('o', 1)";
const OWN_OFTEN: &str = "readers(1, false) reader('o', n)";
const ALL_OFTEN: &str = "readers(1, false) for i = 1, 100 do reader('h:' .. i, math.min(n, 300)) end";
const EXPIRED: &str = "permits(0, 1)";
const TAKEN: &str = "permits(n, now + 600000)";
const QUEUE: &str = "queue(now)";
const HELD_QUEUE: &str = "queue(now) redis.call('HSET', 'x', 'o', 1) redis.call('PEXPIRE', 'x', 600000)";
/// The watch of the free lock has run out on every head.
const DEAD_QUEUE: &str = "queue(now - 60000) redis.call('HSET', 'f', 'head', 'c1:1', 'score', \
    redis.call('ZSCORE', 't', 'c1:1'), 'since', now - 50000, 'look', now, \
    'free', now - 50000, 'deaf', 0)";

const READ_WRITE: &str = "x w turn absent";
const PERMITS: &str = "x {x}:timeout receipt";
const FAIR: &str = "x q t s f";

const fn bound(
    script: &'static str,
    what: &'static str,
    build: &'static str,
    keys: &'static str,
    args: &'static str,
) -> Bound {
    Bound { script, what, build, keys, args, exception: None }
}

/// Those of every kind but the fair lock. Keys and arguments as [`words`] reads them.
pub const BOUNDS: [Bound; 62] = [
    bound("reentrant/force", "a hash of n fields", HASH, "x", "_"),
    bound("reentrant/inspect", "a hash of n fields", HASH, "x", "_"),
    bound("reentrant/renew", "100 holds in a hash of n", HASH, "[x]", "[c:# 60000]"),
    Bound { exception: Some(HASHES_MS), ..bound("reentrant/renew", "500 holds", HASHES, FIVE, FIVE_LEASES) },
    bound("plain/renew", "500 holds", TOKENS, FIVE, "[t 60000 t 60000 t 60000 t 60000 t 60000]"),
    bound("grouped/acquire", "a group of n values", GROUP, "x", "v0 o 60000 0"),
    bound("grouped/renew", "100 of n values", GROUP, "[x]", "[v#] [o 60000]"),
    bound("grouped/acquire_all", "100 values beside n", GROUP, "[x]", "[w# o 60000]"),
    bound("grouped/release_all", "100 of n values", GROUP, "[x]", "[v# o c]"),
    bound("multi/acquire", "100 free locks", "", "[x#]", "[o 60000]"),
    bound("group", "100 free locks", "", "[x#]", "[1^^o^60000^0]"),
    bound("multi/release", "100 holds", HELD_ONCE, "[x#]", "[o c]"),
    bound("fenced/fence", "a token", "redis.call('SET', 'token', n)", "x token", "o 60000 0 o 7 0"),
    bound("preflight", "nothing", "", "x", ""),
    bound("look", "500 locks", FIVE_HUNDRED, FIVE, "1000"),
    bound("semaphore/acquire", "100 wishes", "redis.call('SET', 'x', n)", "x life receipt", "@ 60000 [1]"),
    bound("read/acquire", "n others", LIVING, READ_WRITE, "o 60000 0 o:write"),
    bound("read/acquire", "it holds n times", OWN_OFTEN, READ_WRITE, "o 60000 0 o:write"),
    bound("read/admit", "100 among n", LIVING, READ_WRITE, "[h:# 60000]"),
    bound("read/admit", "100 that held n times", ALL_OFTEN, READ_WRITE, "[h:# 60000]"),
    bound("read/release", "n dead", DEAD_AND_OWN, "x absent", "o 60000 1"),
    bound("read/release", "it holds n times, n dead", OWN_OFTEN, "x absent", "o 60000 1"),
    bound("read/settle", "n dead", DEAD_AND_OWN, "x absent", "o 0"),
    bound("read/settle", "it holds n times, n dead", OWN_OFTEN, "x absent", "o 0"),
    bound("read/force", "n readers", LIVING, "x absent", "_"),
    bound("read/force", "n dead", DEAD, "x absent", "_"),
    bound("read/force", "it holds n times, n dead", OWN_OFTEN, "x absent", "o"),
    bound("read/inspect", "n readers", LIVING, "x", "_ 0"),
    bound("read/inspect", "n dead", DEAD, "x", "_ 0"),
    bound("read/extend", "it holds n times", OWN_OFTEN, "x", "o 60000"),
    bound("read/renew", "100 that hold n times in a write hold", NESTED, "[x# {x#}:o:rwlock_timeout:1]", "[o 60000]"),
    bound("read/renew", "100 that hold n times", ALL_OFTEN, "[x {x}:h:#:rwlock_timeout:1]", "[h:# 60000]"),
    bound("write/acquire", "n dead readers, n gone writers", DEAD, "x w absent", "o:write 60000 0 2000"),
    bound("write/renew", "100 with a longer read hold", PARTED, "[x#]", "[o:write 60000]"),
    bound("write/acquire", "its end passed, n beside it", WRITE_IS_OVER, "x w absent", "o:write 60000 0 2000"),
    bound("read/admit", "the write hold's end passed, n beside it", WRITE_IS_OVER, READ_WRITE, "[h:# 60000]"),
    bound("write/acquire", "n readers", LIVING, "x w absent", "o:write 60000 0 2000"),
    bound("write/release", "n dead beside it", WRITTEN, READ_WRITE, "o:write 60000 1"),
    bound("write/settle", "n dead beside it", WRITTEN, READ_WRITE, "o:write 0"),
    bound("write/force", "n dead beside it", WRITTEN, READ_WRITE, "_"),
    bound("write/inspect", "n dead beside it", WRITTEN, "x", ""),
    bound("write/extend", "n dead beside it", WRITTEN, "x", "o:write 60000"),
    bound("permit_semaphore/acquire", "500 ids, n expired", EXPIRED, PERMITS, "@ 60000 60000~ids:500*9@0"),
    bound("permit_semaphore/acquire", "100 wishes, n expired", EXPIRED, PERMITS, "@ 60000 [60000~ids:1*9@0000#]"),
    bound("permit_semaphore/acquire", "500 ids, n free", TAKEN, PERMITS, "@ 60000 60000~ids:500*9@0"),
    bound("permit_semaphore/release", "500 ids of n", TAKEN, PERMITS, "@ 60000 ids:500*1 0"),
    bound("permit_semaphore/cancel", "500 ids of n", TAKEN, PERMITS, "@ 60000 ids:500*1"),
    bound("permit_semaphore/set", "n taken", TAKEN, PERMITS, "@ 60000 5"),
    bound("permit_semaphore/extend", "500 ids of n", TAKEN, "{x}:timeout", "ids:500*1 60000"),
    bound("permit_semaphore/renew", "a guard of 500", TAKEN, "{x}:timeout", "ids:500*1 900000"),
    bound("permit_semaphore/renew", "50 guards of 5", TAKEN, "[50;{x}:timeout]", "[50;ids:5*# 900000]"),
    bound("permit_semaphore/inspect", "n taken", TAKEN, "x {x}:timeout", ""),
    bound("admin/list", "40 locks", LOCKS, "", "0 * 40"),
    bound("admin/list", "40 read/write locks of n", SHARED, "", "0 * 40"),
    bound("admin/list", "n foreign keys", FOREIGN, "", "0 * 40"),
    bound("admin/server", "nothing", "", "", "x"),
    bound("admin/present", "nothing", "", "x", "60000 text"),
    bound("admin/client", "nothing", "", "x", ""),
    bound("admin/describe", "n readers", CROWD, SEEN, "NUMSUB a b c d e"),
    bound("admin/describe", "n dead readers", GHOSTS, SEEN, "NUMSUB a b c d e"),
    bound("admin/describe", "n wait", HELD_QUEUE, SEEN, "NUMSUB a b c d e"),
    bound("admin/describe", "n permits, n writers", TAKEN_BY_MANY, SEEN, "NUMSUB a b c d e"),
];

const SEEN: &str = "x token q s w {x}:timeout made ended absent";
const LOCKS: &str = "for i = 1, 100 do redis.call('HSET', 'x' .. i, '8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:7', 1) \
    redis.call('PEXPIRE', 'x' .. i, 60000) end";
const SHARED: &str = "for i = 1, 100 do redis.call('HSET', 'x' .. i, 'mode', 'read') for j = 1, n / 100 do \
    redis.call('HSET', 'x' .. i, '8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:' .. j, 1) end end";
const FOREIGN: &str = "for i = 1, n do redis.call('SET', 'x' .. i, i) end";
const CROWD: &str = "redis.call('HSET', 'x', 'mode', 'read') for i = 1, n do \
    local owner = '8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:' .. i redis.call('HSET', 'x', owner, 1) \
    redis.call('SET', '{x}:' .. owner .. ':rwlock_timeout:1', '1', 'PX', 60000) end";
const GHOSTS: &str = "redis.call('HSET', 'x', 'mode', 'read') for i = 1, n do \
    redis.call('HSET', 'x', '8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:' .. i, 300) end";
const TAKEN_BY_MANY: &str = "permits(n, now + 600000) for i = 1, n do \
    redis.call('ZADD', 'w', -i, '#gone:' .. i) redis.call('ZADD', 'w', now + 9000, 'gone:' .. i) end";

const LEAVER: &str = "one leaver is looked for in the list (LREM), from the nearer end: at most half of it";
const PLACE: &str = "the place is counted (LPOS), where somebody asks for it";
const HELD_ONCE: &str = "for i = 1, 100 do redis.call('HSET', 'x' .. i, 'o', 1) end";
/// All of them free soon.
const FIVE_HUNDRED: &str = "for i = 1, 100 do for _, key in ipairs({'a', 'b', 'c', 'd', 'e'}) do \
    redis.call('SET', key .. i, 't', 'PX', 900) end end";
const FIVE: &str = "[a# b# c# d# e#]";
const FIVE_LEASES: &str = "[o 60000 o 60000 o 60000 o 60000 o 60000]";
const HASHES_MS: &str = "a key and a field each: 1.1 ms";
const TOKENS: &str = "for i = 1, 100 do for _, key in ipairs({'a', 'b', 'c', 'd', 'e'}) do \
    redis.call('SET', key .. i, 't', 'PX', 9000) end end";
const HASHES: &str = "for i = 1, 100 do for _, key in ipairs({'a', 'b', 'c', 'd', 'e'}) do \
    redis.call('HSET', key .. i, 'o', 1) redis.call('PEXPIRE', key .. i, 9000) end end";
/// All scores are further ahead than their places say.
const AHEAD: &str = "local real = now now = now + 1e12 queue(real)";
/// The same, and somebody holds it.
const HELD_AHEAD: &str = "local real = now now = now + 1e12 queue(real) \
    redis.call('HSET', 'x', 'c0:0', 1) redis.call('PEXPIRE', 'x', 600000)";

/// Those of the fair lock.
pub const FAIR_BOUNDS: [Bound; 19] = [
    bound("fair/acquire", "behind n dead", DEAD_QUEUE, FAIR, "o 60000 0 1"),
    bound("fair/acquire", "a try behind n dead", DEAD_QUEUE, FAIR, "o 60000 0 0"),
    bound("fair/acquire", "its turn, n too far ahead behind it", AHEAD, FAIR, "c+:+ 60000 0 1"),
    bound("fair/acquire", "held, n wait", HELD_QUEUE, FAIR, "p 60000 0 1"),
    bound("fair/release", "n wait", HELD_QUEUE, FAIR, "o 60000 1"),
    bound("fair/hand_over", "n wait, too far ahead", HELD_AHEAD, FAIR, "c@:@ c+:+ 60000"),
    bound("fair/settle", "the head of n goes", QUEUE, FAIR, "c1:1 0 0"),
    Bound { exception: Some(LEAVER), ..bound("fair/settle", "one of n goes", QUEUE, FAIR, "c900:900 0 0") },
    bound("fair/leave", "the head of n goes", QUEUE, FAIR, "c1:1"),
    Bound { exception: Some(LEAVER), ..bound("fair/leave", "one of n goes", QUEUE, FAIR, "c900:900") },
    bound("fair/leave", "the first 100 of n go", QUEUE, FAIR, "[c#:#]"),
    Bound { exception: Some(LEAVER), ..bound("fair/leave", "100 within n go", QUEUE, FAIR, "[c9#:9#]") },
    bound("fair/refresh", "100 of n, n seen a day ago", "queue(1) queue(now)", FAIR, "[c#:#]"),
    bound("fair/refresh", "100 of n, all unseen for a day", "queue(1)", FAIR, "[c#:#]"),
    bound("fair/renew", "100 holds with n behind", HELD_QUEUE, "[x q t]", "[o 60000]"),
    bound("fair/extend", "n wait", HELD_QUEUE, FAIR, "o 60000"),
    bound("fair/force", "n wait", HELD_QUEUE, FAIR, "_"),
    bound("fair/force", "a hash of n fields", HASH, FAIR, "_"),
    Bound { exception: Some(PLACE), ..bound("fair/place", "one of n", QUEUE, FAIR, "c900:900") },
];

/// The words of a template for the call with this number. `_` is an empty one, `~` a blank inside of one, `^` a new
/// line. What stands in brackets is there a hundred times, or as often as the number before a semicolon says, with its
/// number for `#`. `@` is the number of the call, `+` that of the next one; `ids:5*3` are the ids of the third five
/// permits.
fn words(template: &str, call: usize) -> Vec<String> {
    let part = |part: &str| {
        let (before, repeated) = part.trim_end_matches(']').split_once('[').unwrap_or((part, ""));
        let (times, repeated) = repeated.split_once(';').unwrap_or(("100", repeated));
        let all = (1..=times.parse().unwrap()).map(|at: usize| repeated.replace('#', &at.to_string()));
        all.fold(before.to_owned(), |text, next| text + " " + &next)
    };
    let text: Vec<String> = template.split_inclusive(']').map(part).collect();
    let text = text.join(" ");
    let text = text.replace('@', &call.to_string()).replace('+', &(call + 1).to_string());
    let word = |word: &str| {
        word.trim_start_matches('_').split('~').map(piece).collect::<Vec<_>>().join(" ").replace('^', "\n")
    };
    text.split_whitespace().map(word).collect()
}

/// Permits as calls name them: 16 digits, as bytes.
fn piece(word: &str) -> String {
    let Some((size, number)) = word.strip_prefix("ids:").and_then(|group| group.split_once('*')) else {
        return word.to_owned();
    };
    let [size, number] = [size, number].map(|text| text.parse::<usize>().unwrap());
    let ids = size * (number - 1) + 1..=size * number;
    ids.flat_map(|id| format!("{id:016}").into_bytes()).map(|byte| format!("{byte:02x}")).collect()
}

impl Bound {
    /// Lua that builds it, with `ARGV[1]` of something.
    pub fn build(&self) -> String {
        format!("{PRELUDE}{}", self.build)
    }

    pub fn keys(&self) -> Vec<String> {
        words(self.keys, 0)
    }

    /// The ARGV of one of its calls.
    pub fn args(&self, call: usize) -> Vec<String> {
        let announces = crate::files::announces(self.script);
        let last = if announces { "PUBLISH channel" } else { "" };
        [words("7 9999999999999", call), words(self.args, call), words(last, call)].concat()
    }

    /// The text of the script as the client sends it.
    pub fn text(&self) -> String {
        crate::files::sent(self.script)
    }
}

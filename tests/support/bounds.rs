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
    pub keys: fn() -> Vec<String>,
    /// Those behind the first two, of the call with this number.
    args: fn(usize) -> Vec<String>,
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

fn texts(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// Permits with these ids, as calls name them: 16 digits, as bytes.
fn ids(numbers: std::ops::Range<usize>) -> String {
    numbers
        .map(|number| format!("{number:016}").bytes().map(|byte| format!("{byte:02x}")).collect::<String>())
        .collect()
}

/// A call with a receipt, which lives this long.
fn once(call: usize, rest: &[String]) -> Vec<String> {
    [&[call.to_string(), "60000".to_owned()], rest].concat()
}

fn pairs(of: impl Fn(usize) -> String) -> Vec<String> {
    (1..=100).flat_map(|i| [of(i), "60000".to_owned()]).collect()
}

fn lock() -> Vec<String> {
    texts(&["x"])
}

fn hundred_nested() -> Vec<String> {
    (1..=100).flat_map(|i| [format!("x{i}"), format!("{{x{i}}}:o:rwlock_timeout:1")]).collect()
}

fn hundred_readers() -> Vec<String> {
    (1..=100).flat_map(|i| ["x".to_owned(), format!("{{x}}:h:{i}:rwlock_timeout:1")]).collect()
}

fn lock_of_readers() -> Vec<String> {
    texts(&["x", "absent"])
}

fn hundred() -> Vec<String> {
    vec!["x".to_owned(); 100]
}

fn hundred_locks() -> Vec<String> {
    (1..=100).map(|i| format!("x{i}")).collect()
}

fn read() -> Vec<String> {
    texts(&["x", "w", "turn", "absent"])
}

fn write() -> Vec<String> {
    texts(&["x", "w", "turn", "absent"])
}

fn permits() -> Vec<String> {
    texts(&["x", "{x}:timeout", "receipt"])
}

fn expiries() -> Vec<String> {
    texts(&["{x}:timeout"])
}

fn fair() -> Vec<String> {
    texts(&["x", "q", "t", "s", "f"])
}

macro_rules! bound {
    ($script:literal, $what:literal, $build:expr, $keys:expr, $args:expr) => {
        Bound { script: $script, what: $what, build: $build, keys: $keys, args: $args, exception: None }
    };
}

/// Those of every kind but the fair lock.
pub fn bounds() -> Vec<Bound> {
    [locks(), readers(), writers(), of_permits()].into_iter().flatten().collect()
}

fn locks() -> Vec<Bound> {
    vec![
        bound!("reentrant/force", "a hash of n fields", HASH, lock, |_| texts(&[""])),
        bound!("reentrant/inspect", "a hash of n fields", HASH, lock, |_| texts(&[""])),
        bound!("reentrant/renew", "100 holds in a hash of n", HASH, hundred, |_| pairs(|i| format!("c:{i}"))),
        bound!(
            "plain/renew",
            "100 holds",
            "for i = 1, 100 do redis.call('SET', 'x' .. i, 't', 'PX', 9000) end",
            hundred_locks,
            |_| pairs(|_| "t".to_owned())
        ),
        bound!("fenced/fence", "a token", "redis.call('SET', 'token', n)", || texts(&["x", "token"]), |_| {
            texts(&["o", "60000", "0", "o", "7", "0"])
        }),
        bound!("preflight", "nothing", "", lock, |_| Vec::new()),
        bound!(
            "semaphore/acquire",
            "100 wishes",
            "redis.call('SET', 'x', n)",
            || texts(&["x", "life", "receipt"]),
            |call| { once(call, &vec!["1".to_owned(); 100]) }
        ),
    ]
}

fn readers() -> Vec<Bound> {
    let own = |_| texts(&["o", "60000", "0", "o:write"]);
    vec![
        bound!("read/acquire", "n others", LIVING, read, own),
        bound!("read/acquire", "it holds n times", OWN_OFTEN, read, own),
        bound!("read/admit", "100 among n", LIVING, read, |_| pairs(|i| format!("h:{i}"))),
        bound!("read/admit", "100 that held n times", ALL_OFTEN, read, |_| pairs(|i| format!("h:{i}"))),
        bound!("read/release", "n dead", DEAD_AND_OWN, lock_of_readers, |_| texts(&["o", "60000", "1"])),
        bound!("read/release", "it holds n times, n dead", OWN_OFTEN, lock_of_readers, |_| texts(&["o", "60000", "1"])),
        bound!("read/settle", "n dead", DEAD_AND_OWN, lock_of_readers, |_| texts(&["o", "0"])),
        bound!("read/settle", "it holds n times, n dead", OWN_OFTEN, lock_of_readers, |_| texts(&["o", "0"])),
        bound!("read/force", "n readers", LIVING, lock_of_readers, |_| texts(&[""])),
        bound!("read/force", "n dead", DEAD, lock_of_readers, |_| texts(&[""])),
        bound!("read/force", "it holds n times, n dead", OWN_OFTEN, lock_of_readers, |_| texts(&["o"])),
        bound!("read/inspect", "n readers", LIVING, || texts(&["x"]), |_| texts(&["", "0"])),
        bound!("read/inspect", "n dead", DEAD, || texts(&["x"]), |_| texts(&["", "0"])),
        bound!("read/extend", "it holds n times", OWN_OFTEN, || texts(&["x"]), |_| texts(&["o", "60000"])),
        bound!("read/renew", "100 that hold n times in a write hold", NESTED, hundred_nested, |_| pairs(
            |_| "o".to_owned()
        )),
        bound!("read/renew", "100 that hold n times", ALL_OFTEN, hundred_readers, |_| pairs(|i| format!("h:{i}"))),
    ]
}

fn writers() -> Vec<Bound> {
    let own = |_| texts(&["o:write", "60000", "0", "2000"]);
    vec![
        bound!("write/acquire", "n dead readers, n gone writers", DEAD, || texts(&["x", "w", "absent"]), own),
        bound!(
            "write/renew",
            "100 with a longer read hold",
            PARTED,
            hundred_locks,
            |_| pairs(|_| "o:write".to_owned())
        ),
        bound!("write/acquire", "its end passed, n beside it", WRITE_IS_OVER, || texts(&["x", "w", "absent"]), own),
        bound!("read/admit", "the write hold's end passed, n beside it", WRITE_IS_OVER, read, |_| pairs(|i| format!(
            "h:{i}"
        ))),
        bound!("write/acquire", "n readers", LIVING, || texts(&["x", "w", "absent"]), own),
        bound!("write/release", "n dead beside it", WRITTEN, write, |_| texts(&["o:write", "60000", "1"])),
        bound!("write/settle", "n dead beside it", WRITTEN, write, |_| texts(&["o:write", "0"])),
        bound!("write/force", "n dead beside it", WRITTEN, write, |_| texts(&[""])),
        bound!("write/inspect", "n dead beside it", WRITTEN, || texts(&["x"]), |_| Vec::new()),
        bound!("write/extend", "n dead beside it", WRITTEN, || texts(&["x"]), |_| texts(&["o:write", "60000"])),
    ]
}

fn of_permits() -> Vec<Bound> {
    let five_hundred = |call| once(call, &[ids(1..501), "0".to_owned()]);
    vec![
        bound!("permit_semaphore/acquire", "500 ids, n expired", EXPIRED, permits, |call| {
            once(call, &[format!("60000 {}", ids(call * 1_000_000..call * 1_000_000 + 500))])
        }),
        bound!("permit_semaphore/acquire", "100 wishes, n expired", EXPIRED, permits, |call| {
            let wish = |at: usize| format!("60000 {}", ids(call * 1_000_000 + at..call * 1_000_000 + at + 1));
            once(call, &(0..100).map(wish).collect::<Vec<_>>())
        }),
        bound!("permit_semaphore/acquire", "500 ids, n free", TAKEN, permits, |call| {
            once(call, &[format!("60000 {}", ids(call * 1_000_000..call * 1_000_000 + 500))])
        }),
        bound!("permit_semaphore/release", "500 ids of n", TAKEN, permits, five_hundred),
        bound!("permit_semaphore/cancel", "500 ids of n", TAKEN, permits, |call| once(call, &[ids(1..501)])),
        bound!("permit_semaphore/set", "n taken", TAKEN, permits, |call| once(call, &texts(&["5"]))),
        bound!("permit_semaphore/extend", "500 ids of n", TAKEN, expiries, |_| vec![ids(1..501), "60000".to_owned()]),
        bound!("permit_semaphore/renew", "a guard of 500", TAKEN, expiries, |_| vec![ids(1..501), "900000".to_owned()]),
        bound!("permit_semaphore/renew", "100 guards of 5", TAKEN, || vec!["{x}:timeout".to_owned(); 100], |_| {
            (0..100).flat_map(|i| [ids(5 * i + 1..5 * i + 6), "900000".to_owned()]).collect()
        }),
        bound!("permit_semaphore/inspect", "n taken", TAKEN, || texts(&["x", "{x}:timeout"]), |_| Vec::new()),
    ]
}

/// Those of the fair lock.
pub fn fair_bounds() -> Vec<Bound> {
    let leaver = Some("one leaver is looked for in the list (LREM): 0.6 ms at 10,000");
    let place = Some("the place is counted (LPOS), where somebody asks for it");
    vec![
        bound!("fair/acquire", "behind n dead", DEAD_QUEUE, fair, |_| texts(&["o", "60000", "0", "1"])),
        bound!("fair/acquire", "a try behind n dead", DEAD_QUEUE, fair, |_| texts(&["o", "60000", "0", "0"])),
        bound!(
            "fair/acquire",
            "its turn, n behind it, the debt is due",
            "queue(now) redis.call('HSET', 'f', 'debt', n * 300000 + 300000)",
            fair,
            |call| texts(&[&format!("c{}:{}", call + 1, call + 1), "60000", "0", "1"])
        ),
        bound!("fair/acquire", "held, n wait", HELD_QUEUE, fair, |_| texts(&["p", "60000", "0", "1"])),
        bound!("fair/release", "n wait", HELD_QUEUE, fair, |_| texts(&["o", "60000", "1"])),
        bound!("fair/settle", "the head of n goes", QUEUE, fair, |_| texts(&["c1:1", "0", "0"])),
        Bound {
            exception: leaver,
            ..bound!("fair/settle", "one of n goes", QUEUE, fair, |_| texts(&["c900:900", "0", "0"]))
        },
        bound!("fair/leave", "the head of n goes", QUEUE, fair, |_| texts(&["c1:1"])),
        Bound { exception: leaver, ..bound!("fair/leave", "one of n goes", QUEUE, fair, |_| texts(&["c900:900"])) },
        bound!("fair/refresh", "100 of n, n seen a day ago", "queue(1) queue(now)", fair, |_| {
            (1..=100).map(|i| format!("c{i}:{i}")).collect()
        }),
        bound!("fair/refresh", "100 of n, all unseen for a day", "queue(1)", fair, |_| {
            (1..=100).map(|i| format!("c{i}:{i}")).collect()
        }),
        bound!(
            "fair/renew",
            "100 holds with n behind",
            HELD_QUEUE,
            || { (0..100).flat_map(|_| texts(&["x", "q", "t"])).collect() },
            |_| pairs(|_| "o".to_owned())
        ),
        bound!("fair/extend", "n wait", HELD_QUEUE, fair, |_| texts(&["o", "60000"])),
        bound!("fair/force", "n wait", HELD_QUEUE, fair, |_| texts(&[""])),
        bound!("fair/force", "a hash of n fields", HASH, fair, |_| texts(&[""])),
        Bound { exception: place, ..bound!("fair/place", "one of n", QUEUE, fair, |_| texts(&["c900:900"])) },
    ]
}

impl Bound {
    /// Lua that builds it, with `ARGV[1]` of something.
    pub fn build(&self) -> String {
        format!("{PRELUDE}{}", self.build)
    }

    /// The ARGV of one of its calls.
    pub fn args(&self, call: usize) -> Vec<String> {
        let announces = crate::files::announces(self.script);
        let last: &[&str] = if announces { &["PUBLISH", "channel"] } else { &[] };
        [texts(&["7", "9999999999999"]), (self.args)(call), texts(last)].concat()
    }

    /// The text of the script as the client sends it.
    pub fn text(&self) -> String {
        crate::files::sent(self.script)
    }
}

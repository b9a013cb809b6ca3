//! Every key and channel name. Redisson's layout: docs/PROTOCOL.md, "Layout".

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, OnceLock};

#[cfg(feature = "map-entries")]
use base64::engine::general_purpose::STANDARD_NO_PAD;
#[cfg(feature = "map-entries")]
use base64::Engine;
#[cfg(feature = "map-entries")]
use highway::{HighwayHash, HighwayHasher, Key as Seed};

use crate::metrics::{Class, Classes};

/// Beginnings that belong to the keys that Redisson and lockson derive from a name.
const RESERVED_STARTS: [&str; 2] = ["redisson_", "lockson:"];
/// Endings that do.
const RESERVED_ENDS: [&str; 2] = [":timeout", ":rwlock_timeout"];
/// What the key of each single read hold has in it, before its number.
const READ_HOLD: &str = ":rwlock_timeout:";

/// Of Redisson's hashes: it is the same for all of its users.
#[cfg(feature = "map-entries")]
const SEED: Seed = Seed([0x9e37_79b9_7f4a_7c15, 0xf39c_c060_5ced_c834, 0x1082_276b_f3a2_7251, 0xf86c_6a11_d0c1_8e95]);

/// Why a name can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NameError {
    /// The name is empty, or the name mapper made it so.
    #[error("a lock needs a name; this one is empty, or is mapped to an empty one")]
    Empty,
    /// The name, mapped and with the client's key prefix, is over the limit of the builder.
    #[error("the name has {len} bytes with its prefix, the limit is {limit}: shorten it, or raise `max_name_len`")]
    TooLong {
        /// Bytes of the key: of the mapped name and the prefix.
        len: usize,
        /// The limit in force.
        limit: usize,
    },
    /// The name has a control character (a newline, a NUL, ..).
    #[error("the name or its prefix has the control character {0:?}: leave it out")]
    Control(char),
    /// The braces of the name would put its keys in two cluster slots (`a{b`, `a}b`, `{}`), or make them those of
    /// another name (`{a}` alone shares its channel with `a`).
    #[error("the braces in {0:?} would part or mix up the keys of this lock: use none, or a `{{tag}}` and more")]
    Braces(String),
    /// The name collides with the keys that locks derive from their names.
    #[error("{0:?} is reserved: keys of locks are named so (redisson_.., lockson:.., ..:timeout)")]
    Reserved(String),
}

/// What a name stands for that a script is given: a key, or the channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Key {
    Lock,
    /// No key: it stands behind the script's arguments, as among KEYS it would block the script while its slot moves.
    Channel,
    /// The last fencing token.
    Token,
    /// The writers that readers let go first.
    Writers,
    /// What lets readers pass them.
    Turn,
    /// That of an owner's first read hold, whose entry names it.
    FirstHold,
    /// Never there: lua/read_write.lua says what for.
    Absent,
    /// Who waits, the next one first.
    Queue,
    /// When Java drops a waiter.
    Timeouts,
    /// When a waiter was last heard of.
    Seen,
    /// What is known of the queue's head.
    Front,
    /// When each permit expires.
    Expiries,
    /// Since when a semaphore is there: tells it from an earlier one of its name.
    Made,
    /// How a latch that is gone ended.
    Ended,
    /// No key: a value of a group, which stands before the script's own arguments.
    Value,
}

/// What a name is to be called on the server.
type Mapper = Arc<dyn Fn(&str) -> String + Send + Sync>;

/// How the names that users give become keys.
#[derive(Clone)]
pub(crate) struct Naming {
    pub(crate) prefix: String,
    pub(crate) mapper: Option<Mapper>,
    /// The most bytes of a key.
    pub(crate) limit: usize,
    pub(crate) classes: Classes,
}

impl Default for Naming {
    fn default() -> Self {
        Self { prefix: String::new(), mapper: None, limit: 512, classes: Classes::default() }
    }
}

impl fmt::Debug for Naming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { prefix, mapper, limit, .. } = self;
        write!(f, "{{ prefix: {prefix:?}, mapped: {}, limit: {limit} }}", mapper.is_some())
    }
}

impl Naming {
    /// The key of a name, which may be a bad one.
    pub(crate) fn key(&self, name: &str) -> String {
        match &self.mapper {
            Some(map) => format!("{}{}", self.prefix, map(name)),
            None => format!("{}{name}", self.prefix),
        }
    }
}

/// A key that is made of the lock's when it is first needed.
type Derived = OnceLock<Box<str>>;

/// Those that only some kinds need, in one box.
#[derive(Debug, Default)]
struct AllDerived {
    token: Derived,
    writers: Derived,
    turn: Derived,
    absent: Derived,
    queue: Derived,
    timeouts: Derived,
    seen: Derived,
    front: Derived,
    expiries: Derived,
    made: Derived,
    ended: Derived,
}

/// The names of one lock.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    /// As the user gave it.
    pub(crate) name: Arc<str>,
    /// The key: the prefix, and what the name is mapped to.
    pub(crate) lock: Arc<str>,
    /// Where a release is announced.
    pub(crate) channel: Arc<str>,
    /// Which of a group's values it is; empty for what is no group's.
    pub(crate) value: Box<str>,
    /// What the name is called in metrics.
    pub(crate) class: Class,
    derived: OnceLock<Box<AllDerived>>,
}

impl Keys {
    pub(crate) fn new(naming: &Naming, name: &str) -> Result<Self, NameError> {
        if name.is_empty() {
            return Err(NameError::Empty);
        }
        let lock = naming.key(name);
        if lock.len() == naming.prefix.len() {
            return Err(NameError::Empty);
        }
        let (len, limit) = (lock.len(), naming.limit);
        if len > limit {
            return Err(NameError::TooLong { len, limit });
        }
        if let Some(control) = lock.chars().find(|c| c.is_control()) {
            return Err(NameError::Control(control));
        }
        if RESERVED_STARTS.iter().any(|start| lock.starts_with(start) || name.starts_with(start))
            || RESERVED_ENDS.iter().any(|end| lock.ends_with(end))
            || lock.contains(READ_HOLD)
        {
            return Err(NameError::Reserved(lock));
        }
        let channel = tagged("redisson_lock__channel", &lock);
        let only_a_tag = lock.len() == hash_tag(&lock).len() + 2 && lock.starts_with('{');
        if only_a_tag || hash_tag(&lock) != hash_tag(&channel) {
            return Err(NameError::Braces(lock));
        }
        let class = naming.classes.of(name);
        let name: Arc<str> = name.into();
        let lock = if lock == *name { name.clone() } else { lock.into() };
        Ok(Self { name, lock, channel: channel.into(), class, ..Self::default() })
    }

    /// Those of the read/write lock of this name.
    pub(crate) fn of_read_write(self) -> Self {
        Self { channel: tagged("redisson_rwlock", &self.lock).into(), ..self }
    }

    /// Those of the plain lock of this name.
    pub(crate) fn of_plain(self) -> Self {
        Self { channel: tagged("lockson:plain", &self.lock).into(), ..self }
    }

    /// Those of a value of the group of this name.
    #[cfg(feature = "map-entries")]
    pub(crate) fn of_value(self, value: &[u8]) -> Self {
        Self { value: hashed(value).into(), ..self }
    }

    /// What tells it from all other locks of its client: the channel, as the read/write lock of a name has another than
    /// its exclusive ones, and the value, as a group has one channel.
    pub(crate) fn place(&self) -> Arc<str> {
        match &*self.value {
            "" => self.channel.clone(),
            value => format!("{}\n{value}", self.channel).into(),
        }
    }

    /// Those of the semaphore of this name, expirable or not.
    pub(crate) fn of_semaphore(self) -> Self {
        Self { channel: tagged("redisson_sc", &self.lock).into(), ..self }
    }

    /// Those of the latch of this name. Redisson puts braces round every name here, one with a tag too.
    pub(crate) fn of_latch(self) -> Self {
        Self { channel: format!("redisson_countdownlatch__channel__{{{}}}", self.lock).into(), ..self }
    }

    /// The key of a receipt: what the last call that used it did. Rule 22 of docs/PROTOCOL.md.
    pub(crate) fn receipt(&self, client_id: &str, first_call: &str) -> String {
        format!("{}:{client_id}:{first_call}", tagged("lockson:receipt", &self.lock))
    }

    /// The key of the first read hold of the owner with this field.
    pub(crate) fn first_hold(&self, field: &str) -> String {
        format!("{}:{field}{READ_HOLD}1", braced(&self.lock))
    }

    /// Where the server's id is, for those who order locks of this name on several servers.
    pub(crate) fn server_id(&self) -> String {
        tagged("lockson:server_id", &self.lock)
    }

    /// The names that a script is given, but for those of holds.
    pub(crate) fn of(&self, keys: &[Key]) -> Vec<&str> {
        keys.iter().filter_map(|key| self.key(*key)).collect()
    }

    fn key(&self, key: Key) -> Option<&str> {
        let all = || self.derived.get_or_init(Box::default);
        let (derived, prefix) = match key {
            Key::Lock => return Some(&self.lock),
            Key::Channel => return Some(&self.channel),
            Key::Value => return Some(&self.value),
            Key::FirstHold => return None,
            // Redisson's `suffixName`.
            Key::Expiries => {
                return Some(all().expiries.get_or_init(|| format!("{}:timeout", braced(&self.lock)).into()))
            }
            Key::Token => (&all().token, "redisson_lock_token"),
            Key::Writers => (&all().writers, "lockson:writers"),
            Key::Turn => (&all().turn, "lockson:readers_turn"),
            Key::Absent => (&all().absent, "lockson:absent"),
            Key::Queue => (&all().queue, "redisson_lock_queue"),
            Key::Timeouts => (&all().timeouts, "redisson_lock_timeout"),
            Key::Seen => (&all().seen, "lockson:fair_seen"),
            Key::Front => (&all().front, "lockson:fair_state"),
            Key::Made => (&all().made, "lockson:semaphore_life"),
            Key::Ended => (&all().ended, "lockson:latch_ended"),
        };
        Some(derived.get_or_init(|| tagged(prefix, &self.lock).into()))
    }

    /// The part of the lock's key that puts another key in its slot when that has it in braces.
    pub(crate) fn tag(&self) -> &str {
        hash_tag(&self.lock)
    }

    /// Whether a key is in the lock's slot, and not only by chance.
    pub(crate) fn share_slot(&self, key: &str) -> bool {
        hash_tag(key) == self.tag()
    }
}

/// What Redisson calls a value, or an entry of a map, by the bytes that its codec gives for it.
#[cfg(feature = "map-entries")]
pub(crate) fn hashed(bytes: &[u8]) -> String {
    let hash = HighwayHasher::new(SEED).hash128(bytes);
    let bytes: Vec<u8> = hash.into_iter().flat_map(u64::to_be_bytes).collect();
    STANDARD_NO_PAD.encode(bytes)
}

/// Redisson's `prefixName`.
fn tagged(prefix: &str, name: &str) -> String {
    format!("{prefix}:{}", braced(name))
}

/// A name as the hash tag of what is derived of it, unless it has a brace already.
fn braced(name: &str) -> Cow<'_, str> {
    if name.contains('{') {
        name.into()
    } else {
        format!("{{{name}}}").into()
    }
}

/// The part of a key that decides its slot (Redis Cluster specification, "Hash tags").
fn hash_tag(key: &str) -> &str {
    key.split_once('{')
        .and_then(|(_, rest)| rest.split_once('}'))
        .map(|(tag, _)| tag)
        .filter(|tag| !tag.is_empty())
        .unwrap_or(key)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// All that is there of a name, whatever kind it is used for.
    fn all_of(name: &str) -> Option<(Keys, BTreeSet<String>)> {
        use Key::{Absent, Channel, Ended, Expiries, Front, Lock, Made, Queue, Seen, Timeouts, Token, Turn, Writers};
        let own = keys(name).ok()?;
        let every = [Lock, Absent, Ended, Expiries, Front, Made, Queue, Seen, Timeouts, Token, Turn, Writers];
        let mut all: BTreeSet<String> = own.of(&every).into_iter().map(str::to_owned).collect();
        all.extend([own.receipt("c", "1"), own.first_hold("c:1"), own.server_id()]);
        let families = [|keys| keys, Keys::of_plain, Keys::of_read_write, Keys::of_semaphore, Keys::of_latch];
        for family in families {
            all.extend(family(keys(name).ok()?).of(&[Channel]).into_iter().map(str::to_owned));
        }
        Some((own, all))
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_name_is_refused_or_has_one_slot(
            name in ".{0,20}|[ab{}:_]{0,8}|(redisson_|lockson:)?[a{}]{1,4}(:timeout)?",
        ) {
            if let Some((own, all)) = all_of(&name) {
                prop_assert!(!own.tag().is_empty());
                // A latch's channel has braces always (docs/PROTOCOL.md, "Permits and counts").
                let latch = |key: &String| key.starts_with("redisson_countdownlatch__channel__");
                let strays: Vec<_> = all.iter().filter(|key| !own.share_slot(key) && !latch(key)).collect();
                prop_assert!(strays.is_empty(), "{strays:?}");
            }
        }
    }

    /// All names of up to five of these letters.
    #[test]
    fn any_two_names_share_nothing() {
        let mut names = vec![String::new()];
        let mut whose: std::collections::BTreeMap<String, String> = std::collections::BTreeMap::new();
        for _ in 0..5 {
            names =
                names.iter().flat_map(|name| ["a", "{", "}", ":"].map(|letter| format!("{name}{letter}"))).collect();
            for name in names.iter().flat_map(|name| [name.clone(), format!("{name}:timeout"), format!("{name}:c:1")]) {
                for key in all_of(&name).into_iter().flat_map(|(_, all)| all) {
                    let other = whose.insert(key.clone(), name.clone());
                    assert!(other.is_none_or(|other| other == name), "{key} is of {name} too");
                }
            }
        }
        assert!(whose.len() > 1000);
    }

    fn keys(name: &str) -> Result<Keys, NameError> {
        Keys::new(&Naming::default(), name)
    }

    fn prefixed(prefix: &str, name: &str) -> Result<Keys, NameError> {
        Keys::new(&Naming { prefix: prefix.to_owned(), ..Naming::default() }, name)
    }

    #[test]
    fn names_are_redissons() {
        let [plain, eu] = ["orders:42", "{eu}:x"].map(|name| keys(name).unwrap());
        assert_eq!(plain.of(&[Key::Lock, Key::Channel]), ["orders:42", "redisson_lock__channel:{orders:42}"]);
        assert_eq!(eu.of(&[Key::Lock, Key::Channel]), ["{eu}:x", "redisson_lock__channel:{eu}:x"]);
        assert_eq!(&*prefixed("app:", "x").unwrap().channel, "redisson_lock__channel:{app:x}");
        assert_eq!(plain.receipt("id", "7"), "lockson:receipt:{orders:42}:id:7");
        assert_eq!(plain.first_hold("id:7"), "{orders:42}:id:7:rwlock_timeout:1");
        assert_eq!(eu.first_hold("id:7"), "{eu}:x:id:7:rwlock_timeout:1");
    }

    #[test]
    fn each_family_has_names_of_its_own() {
        use Key::{Absent, Channel, Ended, Expiries, Lock, Turn, Writers};
        // N: the name; T: with braces, if it has none.
        let check = |family: fn(Keys) -> Keys, of: &[Key], names: &str| {
            for (name, tagged) in [("x", "{x}"), ("{eu}:x", "{eu}:x")] {
                let names = names.replace('N', name).replace('T', tagged);
                assert_eq!(family(keys(name).unwrap()).of(of).join(" "), names);
            }
        };
        check(Keys::of_plain, &[Lock, Channel], "N lockson:plain:T");
        let names = "redisson_rwlock:T lockson:writers:T lockson:readers_turn:T lockson:absent:T";
        check(Keys::of_read_write, &[Channel, Writers, Turn, Absent], names);
        check(Keys::of_semaphore, &[Lock, Channel, Expiries], "N redisson_sc:T T:timeout");
        check(Keys::of_latch, &[Channel, Ended], "redisson_countdownlatch__channel__{N} lockson:latch_ended:T");
    }

    #[test]
    fn bad_names_are_refused() {
        assert_eq!(keys("").err(), Some(NameError::Empty));
        assert_eq!(keys(&"x".repeat(513)).err(), Some(NameError::TooLong { len: 513, limit: 512 }));
        assert_eq!(keys("a\0").err(), Some(NameError::Control('\0')));
        for name in ["a{b", "a}b", "{}", "{}a", "a{}b", "}{", "{a", "{a}"] {
            assert!(matches!(keys(name), Err(NameError::Braces(_))), "{name}");
        }
        for name in
            ["redisson_lock_queue:{x}", "lockson:x", "{x}:timeout", "x:rwlock_timeout", "{x}:c:1:rwlock_timeout:1"]
        {
            assert!(matches!(keys(name), Err(NameError::Reserved(_))), "{name}");
        }
        assert!(matches!(prefixed("redisson_", "x"), Err(NameError::Reserved(_))));
    }

    #[test]
    fn a_mapped_name_is_as_good_as_what_it_is_mapped_to() {
        let map = |name: &str| name.strip_prefix("to ").unwrap_or(name).replace(' ', "");
        let naming = Naming { prefix: "app:".to_owned(), mapper: Some(Arc::new(map)), limit: 8, ..Naming::default() };
        let keys = |name| Keys::new(&naming, name);
        let mapped = keys("to a b").unwrap();
        assert_eq!((&*mapped.name, &*mapped.lock), ("to a b", "app:ab"));
        assert_eq!(
            mapped.of(&[Key::Channel, Key::Queue]),
            ["redisson_lock__channel:{app:ab}", "redisson_lock_queue:{app:ab}"]
        );
        assert_eq!(keys("to ").err(), Some(NameError::Empty));
        assert_eq!(keys("to abcde").err(), Some(NameError::TooLong { len: 9, limit: 8 }));
        assert!(matches!(keys("to {a"), Err(NameError::Braces(lock)) if lock == "app:{a"));
        assert_eq!(keys("to \n").err(), Some(NameError::Control('\n')));
    }

    #[test]
    fn two_names_never_share_a_key() {
        let names = ["a", "b", "a:b", "{a}x", "{a}:b", "a b", "ä", "x{a}", "{a}{b}"];
        let every = [Key::Lock, Key::Channel, Key::Token, Key::Queue, Key::Timeouts, Key::Seen, Key::Front];
        let mut all: Vec<String> = names
            .iter()
            .flat_map(|name| keys(name).unwrap().of(&every).into_iter().map(str::to_owned).collect::<Vec<_>>())
            .collect();
        let before = all.len();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), before);
    }
}

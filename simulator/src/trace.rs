//! What a run was, as one number: each script with its answer, and each thing that a task did, with their moments.

use lockson_embedded::Value;

/// FNV-1a of all that was noted. (The standard library's hash may change.)
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trace(pub u64);

impl Default for Trace {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Trace {
    pub fn add(&mut self, bytes: impl AsRef<[u8]>) {
        // One more, so that two words are not taken for one.
        for byte in bytes.as_ref().iter().copied().chain([0xff]) {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    pub fn add_value(&mut self, value: &Value) {
        match value {
            Value::Nil => self.add("nil"),
            Value::Int(value) => self.add(value.to_le_bytes()),
            Value::Bulk(text) | Value::Status(text) | Value::Error(text) => self.add(text),
            Value::List(items) => items.iter().for_each(|item| self.add_value(item)),
        }
    }
}

#[cfg(test)]
mod tests {
    use lockson::EmbeddedServer;

    use crate::plan::{Plan, SERVERS};
    use crate::play::play;

    /// This is a debug build, in CI: a release build compares all of them.
    #[test]
    fn a_debug_build_gives_the_committed_hashes() {
        let servers: Vec<EmbeddedServer> = (0..SERVERS).map(|_| EmbeddedServer::new()).collect();
        let known: Vec<&str> = include_str!("../hashes.txt").lines().take(60).collect();
        let played = (0..60).map(|seed| format!("{:016x}", play(&Plan::of(seed, None), &servers, false).hash));
        assert_eq!(played.collect::<Vec<String>>(), known);
    }
}

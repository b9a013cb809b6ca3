//! What a run was, as one number: each script with its answer, and each thing that a task did, with their moments.

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
}

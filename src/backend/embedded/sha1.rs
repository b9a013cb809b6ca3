//! SHA-1, by which scripts are named in error texts and in the cache.

/// The digest of `bytes` in hexadecimal.
pub(super) fn sha1_hex(bytes: &[u8]) -> String {
    let mut message = bytes.to_vec();
    message.push(0x80);
    let padding = (56 + 64 - message.len() % 64) % 64;
    message.resize(message.len() + padding, 0);
    let bits = u64::try_from(bytes.len()).unwrap_or(u64::MAX).wrapping_mul(8);
    message.extend(bits.to_be_bytes());

    let mut state = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476, 0xc3d2_e1f0];
    for block in message.chunks_exact(64) {
        state = mix(state, block);
    }
    state.iter().map(|word: &u32| format!("{word:08x}")).collect()
}

fn mix(state: [u32; 5], block: &[u8]) -> [u32; 5] {
    // The last sixteen words of the schedule; each new one takes the place of the oldest.
    let mut window: std::collections::VecDeque<u32> =
        block.chunks_exact(4).map(|word| word.iter().fold(0, |word, byte| (word << 8) | u32::from(*byte))).collect();
    let word = |window: &std::collections::VecDeque<u32>, at: usize| window.get(at).copied().unwrap_or_default();

    let [mut a, mut b, mut c, mut d, mut e] = state;
    for round in 0..80 {
        let (mixed, constant) = match round {
            0..20 => ((b & c) | (!b & d), 0x5a82_7999),
            20..40 => (b ^ c ^ d, 0x6ed9_eba1),
            40..60 => ((b & c) | (b & d) | (c & d), 0x8f1b_bcdc),
            _ => (b ^ c ^ d, 0xca62_c1d6_u32),
        };
        let sum = a.rotate_left(5).wrapping_add(mixed).wrapping_add(e);
        let next = sum.wrapping_add(constant).wrapping_add(word(&window, 0));
        (a, b, c, d, e) = (next, a, b.rotate_left(30), c, d);

        let grown = word(&window, 13) ^ word(&window, 8) ^ word(&window, 2) ^ word(&window, 0);
        window.push_back(grown.rotate_left(1));
        window.pop_front();
    }
    let [s0, s1, s2, s3, s4] = state;
    [s0.wrapping_add(a), s1.wrapping_add(b), s2.wrapping_add(c), s3.wrapping_add(d), s4.wrapping_add(e)]
}

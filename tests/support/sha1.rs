//! The name by which EVALSHA calls a script.

/// The SHA-1 of `bytes` in lower-case hexadecimal.
pub fn sha1(bytes: &[u8]) -> String {
    let mut state = [0x6745_2301_u32, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476, 0xc3d2_e1f0];
    let mut padded = bytes.to_vec();
    padded.push(0x80);
    while padded.len() % 64 != 56 {
        padded.push(0);
    }
    padded.extend((bytes.len() as u64 * 8).to_be_bytes());
    for block in padded.chunks(64) {
        round(&mut state, block);
    }
    state.iter().map(|word| format!("{word:08x}")).collect()
}

/// Takes one block of 64 bytes into the state.
fn round(state: &mut [u32; 5], block: &[u8]) {
    let mut words = [0u32; 80];
    for (word, bytes) in words.iter_mut().zip(block.chunks(4)) {
        *word = u32::from_be_bytes(bytes.try_into().unwrap());
    }
    for n in 16..80 {
        words[n] = (words[n - 3] ^ words[n - 8] ^ words[n - 14] ^ words[n - 16]).rotate_left(1);
    }
    let [mut a, mut b, mut c, mut d, mut e] = *state;
    for (n, word) in words.iter().enumerate() {
        let (mix, constant) = match n / 20 {
            0 => (b & c | !b & d, 0x5a82_7999),
            1 => (b ^ c ^ d, 0x6ed9_eba1),
            2 => (b & c | b & d | c & d, 0x8f1b_bcdc),
            _ => (b ^ c ^ d, 0xca62_c1d6_u32),
        };
        let next = [mix, e, constant, *word].iter().fold(a.rotate_left(5), |sum, part| sum.wrapping_add(*part));
        (e, d, c, b, a) = (d, c, b.rotate_left(30), a, next);
    }
    for (sum, part) in state.iter_mut().zip([a, b, c, d, e]) {
        *sum = sum.wrapping_add(part);
    }
}

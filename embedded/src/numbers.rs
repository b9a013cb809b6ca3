//! Numbers as Redis reads and writes them.

/// Reads a whole number the strict way of Redis: no sign `+`, no space, no leading zero, nothing behind it.
pub(crate) fn parse_int(bytes: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(bytes).ok()?;
    let value: i64 = text.parse().ok()?;
    // Only the spelling that Redis itself would write is a number.
    (value.to_string() == text).then_some(value)
}

/// Reads a score: as C's `strtod`, which must use up all bytes, except hexadecimal numbers. No NaN, no overflow.
pub(crate) fn parse_float(bytes: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(bytes).ok()?;
    let value: f64 = text.parse().ok()?;
    let spells_infinity = text.contains(['n', 'N']);
    let digits = text.split(['e', 'E']).next().unwrap_or_default();
    let spells_zero = !digits.contains(|c: char| ('1'..='9').contains(&c));
    let out_of_range = (value.is_infinite() && !spells_infinity) || (value == 0.0 && !spells_zero);
    (!value.is_nan() && !out_of_range).then_some(value)
}

/// Writes a score as Redis 7.0 does: C's `%.17g`.
pub(crate) fn format_float(value: f64) -> String {
    if value.is_nan() {
        return "nan".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let scientific = format!("{value:.16e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..17).contains(&exponent) {
        let decimals = usize::try_from(16 - exponent).unwrap_or(0);
        return without_zeros(&format!("{value:.decimals$}")).to_owned();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", without_zeros(digits), exponent.unsigned_abs())
}

fn without_zeros(text: &str) -> &str {
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.')
    } else {
        text
    }
}

//! Patterns of names, as Redis has them: `*`, `?`, `[a-c]`, `[^a]`, `\`.

/// Whether a name is like this pattern.
pub(super) fn matches(pattern: &[char], name: &[char]) -> bool {
    // Behind the last star, and how much of the name it has taken: only that one is ever tried again.
    let (mut left, mut rest, mut star) = (pattern, name, None);
    loop {
        match (left, rest) {
            (['*', tail @ ..], _) => {
                star = Some((tail, rest));
                left = tail;
                continue;
            }
            ([], []) => return true,
            (_, [found, tail @ ..]) => {
                if let Some(after) = one(left, *found) {
                    (left, rest) = (after, tail);
                    continue;
                }
            }
            _ => {}
        }
        match star {
            Some((behind, [_, shorter @ ..])) => {
                star = Some((behind, shorter));
                (left, rest) = (behind, shorter);
            }
            _ => return false,
        }
    }
}

/// What follows the beginning of a pattern that stands for one character, if it stands for this one.
fn one(pattern: &[char], found: char) -> Option<&[char]> {
    match pattern {
        ['?', rest @ ..] => Some(rest),
        ['[', '^', rest @ ..] => class(rest, found).and_then(|(is_in, rest)| (!is_in).then_some(rest)),
        ['[', rest @ ..] => class(rest, found).and_then(|(is_in, rest)| is_in.then_some(rest)),
        ['\\', wanted, rest @ ..] | [wanted, rest @ ..] => (*wanted == found).then_some(rest),
        [] => None,
    }
}

/// Whether a character is in a class, and what follows the class. `None`: it has no end.
fn class(mut rest: &[char], found: char) -> Option<(bool, &[char])> {
    let mut is_in = false;
    loop {
        rest = match rest {
            [] => return None,
            [']', rest @ ..] => return Some((is_in, rest)),
            ['\\', one, rest @ ..] => {
                is_in |= *one == found;
                rest
            }
            [low, '-', high, rest @ ..] if *high != ']' => {
                is_in |= (*low.min(high)..=*low.max(high)).contains(&found);
                rest
            }
            [one, rest @ ..] => {
                is_in |= *one == found;
                rest
            }
        };
    }
}

/// The same text as a pattern of nothing else.
pub(super) fn escaped(text: &str) -> String {
    let escape = |c: char| if "*?[]\\^-".contains(c) { vec!['\\', c] } else { vec![c] };
    text.chars().flat_map(escape).collect()
}

/// A pattern that all of these names are like, and more, for a server, which knows bytes and no characters.
pub(super) fn loose(mut pattern: &[char]) -> String {
    let mut text = String::new();
    loop {
        let one;
        (one, pattern) = match pattern {
            [] => return text,
            // A class, or what has no end.
            ['[', rest @ ..] => ("*".to_owned(), class(rest, ' ').map_or(&[][..], |(_, rest)| rest)),
            ['\\'] => ("*".to_owned(), &[][..]),
            ['\\', escaped, rest @ ..] => (format!("\\{escaped}"), rest),
            ['?' | '*', rest @ ..] => ("*".to_owned(), rest),
            [c, rest @ ..] => (c.to_string(), rest),
        };
        if one != "*" || !text.ends_with('*') || text.ends_with("\\*") {
            text += &one;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_like(pattern: &str, name: &str) -> bool {
        let [pattern, name] = [pattern, name].map(|text| text.chars().collect::<Vec<_>>());
        matches(&pattern, &name)
    }

    #[test]
    fn a_pattern_is_read_as_redis_reads_it() {
        for (pattern, likes, others) in [
            ("*", vec!["", "a", "a:b"], vec![]),
            ("a*c", vec!["ac", "abc", "abcbc"], vec!["ab", "bc", ""]),
            ("a?c", vec!["abc", "aäc"], vec!["ac", "abbc"]),
            ("x[a-c]", vec!["xa", "xb", "xc"], vec!["xd", "x", "xab"]),
            ("x[^ab]", vec!["xc", "x^"], vec!["xa", "xb", "x"]),
            ("x\\*", vec!["x*"], vec!["xa", "x"]),
            ("*a*b*", vec!["ab", "xaxbx", "aab"], vec!["ba", "a", "b"]),
            ("", vec![""], vec!["a"]),
        ] {
            for name in likes {
                assert!(is_like(pattern, name), "{pattern} {name}");
            }
            for name in others {
                assert!(!is_like(pattern, name), "{pattern} {name}");
            }
        }
    }

    #[test]
    fn many_stars_take_no_time() {
        assert!(!is_like(&"a*".repeat(200), &"a".repeat(5000)[..199]));
        assert!(!is_like(&format!("{}b", "a*".repeat(100)), &"a".repeat(5000)));
    }

    #[test]
    fn an_escaped_text_is_like_itself_alone() {
        for text in ["a*", "[x]", "a\\b", "a-b", "^", "ä?"] {
            assert!(is_like(&escaped(text), text), "{text}");
            assert!(!is_like(&escaped(text), "aa") && !is_like(&escaped(text), "a"), "{text}");
        }
    }

    #[test]
    fn what_a_server_is_asked_for_has_no_open_end() {
        let asked = |pattern: &str| loose(&pattern.chars().collect::<Vec<_>>());
        for (pattern, expected) in [
            ("", ""),
            ("a*b", "a*b"),
            ("gr??e", "gr*e"),
            ("x[ab]?y", "x*y"),
            ("a\\*b", "a\\*b"),
            ("a\\**b", "a\\**b"),
            ("x[a", "x*"),
            ("x\\", "x*"),
        ] {
            assert_eq!(asked(pattern), expected, "{pattern}");
        }
    }
}

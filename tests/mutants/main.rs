//! Puts mistakes into the Lua scripts or the Rust core, one at a time, and says which of them no test sees.
//! `scripts/mutants` runs it.

mod blocks;
mod book;
mod lua;
mod rust;

fn main() {
    let mut words = std::env::args().skip(1);
    let good = match words.next().as_deref() {
        Some("lua") => lua::judge_all(words),
        Some("rust") => rust::judge_all(words),
        other => panic!("{other:?}? See scripts/mutants"),
    };
    std::process::exit(i32::from(!good));
}

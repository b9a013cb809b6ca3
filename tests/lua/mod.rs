//! Each Lua script by itself: what it answers, what is stored behind it and who hears of it, told as stories.

mod fair;
mod permits;
mod plain;
mod read;
mod reentrant;
mod shared;
mod story;
mod write;

/// Tests that are a story each: lines as [`story::tell`] reads them.
macro_rules! stories {
    ($($(#[$note:meta])* $name:ident { $($line:literal)* })*) => {
        $($(#[$note])* #[tokio::test(start_paused = true)]
        async fn $name() {
            crate::lua::story::tell(&[$($line),*]).await;
        })*
    };
}
use stories;

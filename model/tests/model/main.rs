//! The searches, as tests: each scope holds, and breaks without any of the rules that hold it. They print how much they
//! saw. `LOCKSON_SOAK=1` searches the large scopes too.

mod locks;
mod permits;
mod red;
mod rules;

/// Whether the large scopes are searched.
fn soak() -> bool {
    std::env::var_os("LOCKSON_SOAK").is_some()
}

//! One property of `properties.rs`, that the environment names, and libFuzzer to find bytes of which it does not hold.

#![no_main]

use std::sync::LazyLock;

use lockson::properties::PROPERTIES;

static PROPERTY: LazyLock<fn(&[u8])> = LazyLock::new(|| {
    let name = std::env::var("PROPERTY").unwrap_or_default();
    PROPERTIES.iter().find(|(known, _)| *known == name).unwrap_or_else(|| panic!("no property {name:?}")).1
});

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| PROPERTY(bytes));

//! The documents of the repository as pages of this documentation. They exist in it alone: nothing is compiled.

macro_rules! page {
    ($name:ident, $file:literal) => {
        #[doc = include_str!("links.md")]
        #[doc = include_str!(concat!("../docs/", $file))]
        pub mod $name {}
    };
}

page!(architecture, "ARCHITECTURE.md");
page!(choosing, "CHOOSING.md");
page!(guarantees, "GUARANTEES.md");
page!(model, "MODEL.md");
page!(mutants, "MUTANTS.md");
page!(operations, "OPERATIONS.md");
page!(performance, "PERFORMANCE.md");
page!(pitfalls, "PITFALLS.md");
page!(protocol, "PROTOCOL.md");
page!(redisson, "REDISSON.md");
page!(testing, "TESTING.md");
page!(topologies, "TOPOLOGIES.md");
page!(weaknesses, "WEAKNESSES.md");

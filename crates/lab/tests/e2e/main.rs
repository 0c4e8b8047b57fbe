//! The laboratory with real programs, in real namespaces.

/// The program under test.
const MBUMA: &str = env!("CARGO_BIN_EXE_mbuma-lab");

#[macro_use]
#[path = "../../../cli/tests/e2e/common/mod.rs"]
#[allow(dead_code, unused_imports, unused_macros)] // the tool's tests use the rest
mod common;

mod all;
mod alloc;
mod epair;
mod run;

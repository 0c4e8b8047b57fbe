//! Tests that need private items. The rest is in `tests/`.

mod ext;
mod layout;
mod limits;
mod pages;
mod zeroize;

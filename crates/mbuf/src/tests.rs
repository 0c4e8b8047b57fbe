//! What only the inside can show. The rest is in `tests/`.

mod ext;
mod layout;
mod limits;
mod pages;
mod zeroize;

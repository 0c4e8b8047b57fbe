//! uma

//! Parts that several test programs share: a stack on a pipe, a stack with UNIX-domain sockets.

#![allow(dead_code)] // each program uses its part

pub(crate) mod count;
pub(crate) mod empty_at_end;
pub mod net;
pub mod splinter;
pub mod unix;

//! System calls that several crates above need, behind safe types.
//!
//! | module | content |
//! |---|---|
//! | [`eventfd`] | a descriptor by which a thread is woken that sleeps in epoll or poll |

pub mod eventfd;

pub use eventfd::EventFd;

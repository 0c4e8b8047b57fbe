//! System calls that several crates above need, behind safe types.
//!
//! | module | content |
//! |---|---|
//! | [`tap`] | the other end of a network interface of the kernel's |
//! | [`eventfd`] | a descriptor by which a thread is woken that sleeps in epoll or poll |

pub mod eventfd;
pub mod tap;

pub use eventfd::EventFd;

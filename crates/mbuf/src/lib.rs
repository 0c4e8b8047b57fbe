//! mbuf

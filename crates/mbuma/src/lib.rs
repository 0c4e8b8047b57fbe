//! mbuma

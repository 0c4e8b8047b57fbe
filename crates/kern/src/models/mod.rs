//! Protocols below [`prim`](crate::prim) under loom. Those above it have models in `tests/models`.

mod lock;

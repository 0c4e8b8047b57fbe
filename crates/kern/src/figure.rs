//! A figure: its name, its unit and its meaning, declared once beside the counter.
//!
//! Statistics, JSON, Prometheus and the tables for people are all made from such declarations.

/// The unit of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Events or things.
    Count,
    /// Bytes.
    Bytes,
    /// Seconds.
    Seconds,
}

/// The declaration of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Figure {
    /// In snake case: a program may rely on it.
    pub name: &'static str,
    /// Its unit.
    pub unit: Unit,
    /// One sentence for people, with its full stop.
    pub help: &'static str,
}

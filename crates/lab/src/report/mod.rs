//! The report: one page with each seed's claims beside the measurements; and the interface by which every experiment
//! contributes to it.
//!
//! ```text
//!   experiment.rs  what an experiment says about itself     registry.rs  which there are
//!   rows.rs        records that were read from JSON         results.rs   results.jsonl, written and read
//!   machine.rs     where it was measured, date.rs when      page/        the HTML
//! ```

mod date;
mod experiment;
pub(crate) mod machine;
pub(crate) mod page;
pub(crate) mod registry;
pub(crate) mod results;
mod rows;

pub use experiment::{Claim, Experiment, Finding, OUR_TARGET, Pace, Shape, Verdict};
pub use registry::experiments;
pub use rows::{Row, Rows};

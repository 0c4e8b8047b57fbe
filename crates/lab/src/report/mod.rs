//! What every experiment of the laboratory tells the report, and the report: one page that holds what each seed claims
//! beside what was measured here.
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

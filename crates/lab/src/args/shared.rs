//! The options that several experiments have.

use std::path::PathBuf;

/// The options of every comparison.
#[derive(Debug, clap::Args)]
pub(crate) struct CommonArgs {
    /// Only these cases
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) case: Vec<String>,

    /// Only these designs
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) design: Vec<String>,

    /// Rounds
    #[arg(long, value_name = "N", default_value_t = 11)]
    pub(crate) reps: usize,

    /// One line of JSON for each figure, instead of tables
    #[arg(long)]
    pub(crate) json: bool,

    /// List the cases and the designs, and measure nothing
    #[arg(long)]
    pub(crate) list: bool,
}

/// The options of a comparison that measures for a time.
#[derive(Debug, clap::Args)]
pub(crate) struct TimedArgs {
    /// Time for which each design is measured in each case, all rounds together
    #[arg(long, value_name = "S", default_value_t = 0.3)]
    pub(crate) seconds_per_case: f64,

    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

/// The option of a comparison of tools.
#[derive(Debug, clap::Args)]
pub(crate) struct ToolArgs {
    /// The tool to measure [default: the `mbuma` that was built beside this program]
    #[arg(long, value_name = "PATH")]
    pub(crate) tool: Option<PathBuf>,
}

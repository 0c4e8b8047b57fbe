//! The command line of `mbuma publish`.
//!
//! Locks: none.

use clap::Subcommand;

use super::PublishRange;

/// The command line of `mbuma publish`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  mbuma publish add 8080:80              of the one mbuma that runs
  mbuma publish add --pid 4711 0.0.0.0:53:53/udp
  mbuma publish add 8080:10.0.2.101:80   of a network's guest (`mbuma network inspect`)
  mbuma publish list
  mbuma publish remove 2                 by the number that `add` and `list` print; connections stay

Exit status:
  0; 1 if no mbuma runs, or it refuses; 2 if several run and --pid was not given, or for a mistake
  in the options.")]
pub(crate) struct PublishArgs {
    /// The change.
    #[command(subcommand)]
    pub(crate) what: PublishVerb,

    /// Process number of the mbuma to change
    #[arg(long, value_name = "PID", global = true, value_parser = super::number::pid)]
    pub(crate) pid: Option<i32>,
}

/// The change of published ports.
#[derive(Debug, Subcommand)]
pub(crate) enum PublishVerb {
    /// Publish ports, and print their numbers
    Add {
        /// As `mbuma run --publish`
        #[arg(value_name = "[ADDR:]HOST:[ADDR:]GUEST[/udp]", required = true)]
        ports: Vec<PublishRange>,
    },
    /// Publish ports no more
    Remove {
        /// The numbers that `add` and `list` print
        #[arg(value_name = "ID", required = true, value_parser = published_id)]
        ids: Vec<u32>,
    },
    /// Print the published ports, and those of the guest's loopback that lead to the host's
    List {
        /// As the API socket says it
        #[arg(long)]
        json: bool,
    },
}

/// The number of a published port.
fn published_id(text: &str) -> Result<u32, String> {
    let number = text.parse();
    number.map_err(|_| "it is no number that `mbuma publish list` prints".to_owned())
}

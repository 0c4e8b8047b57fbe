//! The command line of `mbuma network`, and the names of networks.
//!
//! Invariants: a name is a part of a file's name.
//! Locks: none.

use clap::Subcommand;

/// Bytes of a network's name at most: the path of its socket has to fit.
const NAME_MAX: usize = 32;

/// The command line of `mbuma network`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  mbuma run --network blue --hostname db -- postgres -D data
      begins the network; its last guest ends it
  mbuma run --network blue -- psql -h db
      another guest of the same network
  mbuma network ls
  mbuma network inspect blue | jq '.guests'

Exit status:
  0; 1 if there is no such network, or it refuses; 125 if mbuma failed; 2 for a mistake in the
  options.")]
pub(crate) struct NetworkArgs {
    /// What to do.
    #[command(subcommand)]
    pub(crate) what: NetworkVerb,
}

/// The operation on networks.
#[derive(Debug, Subcommand)]
pub(crate) enum NetworkVerb {
    /// Print the networks of this user: name, process, gateway, number of guests
    Ls {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Print a network and its guests, as JSON
    Inspect {
        /// The network
        #[arg(value_name = "NAME", required = true, value_parser = network_name)]
        names: Vec<String>,
    },
    /// Remove a network: one that a killed mbuma left, or with --force one that has guests, whose COMMANDs end
    Rm {
        /// End its guests
        #[arg(short, long)]
        force: bool,
        /// The network
        #[arg(value_name = "NAME", required = true, value_parser = network_name)]
        names: Vec<String>,
    },
}

/// A network's name.
pub(crate) fn network_name(text: &str) -> Result<String, String> {
    let fits = (1..=NAME_MAX).contains(&text.len());
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    let begins = text
        .bytes()
        .next()
        .is_some_and(|b| b.is_ascii_alphanumeric());
    match fits && begins && text.bytes().all(plain) {
        true => Ok(text.to_owned()),
        false => Err(format!(
            "a network's name is 1 to {NAME_MAX} letters, digits, - _ and . , and begins with a letter or digit"
        )),
    }
}

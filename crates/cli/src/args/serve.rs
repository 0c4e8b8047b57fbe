//! Serving files: the options of `run` and `attach` for it.
//!
//! Called by: args. Calls: clap.
//! Locks: none.

use std::path::PathBuf;

/// Files that the guest finds at the gateway's own address.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct ServeOpts {
    /// Serve the files below DIR to COMMAND, at http://10.0.2.2/files/
    ///
    /// Hidden files and links that lead out of DIR are not served. A file that the client takes compressed is sent from the
    /// file of the same name with .zst, .br or .gz behind it, if that is no older. Started by root, mbuma reads the files
    /// as `nobody`.
    #[arg(long = "serve", value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,

    /// Append a line to FILE for each request, in the combined log format
    #[arg(long = "serve-log", value_name = "FILE", requires = "dir")]
    pub(crate) log: Option<PathBuf>,

    /// Serve no list of the files in a directory without an index.html
    #[arg(long = "serve-no-listing", requires = "dir")]
    pub(crate) no_listing: bool,
}

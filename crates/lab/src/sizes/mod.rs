//! `cargo lab sizes`: the memory of packets of real sizes in mbufs and clusters, and in the buffers of others.
//!
//! ```text
//!   trace.rs    generated, or read by capture.rs       histogram.rs  which sizes there are (figure 2)
//!   designs.rs  the list: ours.rs is made and measured, models.rs is worked out
//!   tally.rs    a trace kept by a design               calls.rs      what a host calls for a trace (figure 3)
//!   show.rs     tables, with what the seed said        records.rs   JSON
//! ```
//!
//! No figure here is a time: the figures of a trace are the same on every machine, in every run.
//!
//! Sources: seed 004 section 4, figures 2 and 3, and section 5.6.

mod calls;
mod capture;
mod designs;
mod histogram;
mod models;
mod ours;
mod records;
pub(crate) mod report;
mod show;
mod tally;
mod trace;

use crate::Error;
use crate::error::written;
use calls::{Calls, PATHS, Path as Way};
use designs::DESIGNS;
use histogram::{Bin, Bins};
use std::io::Write;
use std::path::PathBuf;
use tally::Tally;
use trace::Trace;

/// Which packets, and how to show their memory.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cargo lab sizes                                packets made up: many small, many full, few between
  tcpdump -i eth0 -c 100000 -s 96 -w eth0.pcap   your own; lengths are all that is taken
  cargo lab sizes --trace eth0.pcap
  cargo lab sizes --queue 4096 --json | jq .

No figure here is a time: the same packets give the same figures on every machine.")]
pub struct Options {
    /// Take the packets from this capture (pcap or pcapng) instead of making them up
    #[arg(long, value_name = "FILE", conflicts_with_all = ["packets", "seed"])]
    pub trace: Option<PathBuf>,
    /// How many packets to make up
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    pub packets: usize,
    /// The seed of made-up packets: a seed gives the same packets again
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    pub seed: u64,
    /// Packets that are held at once
    #[arg(long, value_name = "N", default_value_t = 512)]
    pub queue: usize,
    /// One line of JSON for each figure, instead of tables
    #[arg(long)]
    pub json: bool,
}

/// The most packets that are made up: 80 MB of lengths.
pub const PACKETS_MAX: usize = 10_000_000;
/// The most packets that are held at once.
pub const QUEUE_MAX: usize = 65_536;

impl Default for Options {
    fn default() -> Self {
        Self {
            trace: None,
            packets: 100_000,
            seed: 1,
            queue: 512,
            json: false,
        }
    }
}

/// Runs the comparison and writes the results to `out`: tables, or JSON lines.
///
/// # Errors
/// [`Error`]: a number out of its range, a trace that cannot be read, or `out` cannot be written.
pub fn run(options: &Options, out: &mut dyn Write) -> Result<(), Error> {
    let found = Findings::of(options)?;
    let records = records::records(&found);
    let text = match options.json {
        true => records.iter().map(|r| r.to_json() + "\n").collect(),
        false => show::text(&found),
    };
    written(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

/// All that is known of a trace in the end.
struct Findings {
    trace: Trace,
    queue: usize,
    tallies: Vec<Tally>,
    calls: Vec<(Way, Calls)>,
}

impl Findings {
    fn of(options: &Options) -> Result<Self, Error> {
        within("--packets", options.packets, PACKETS_MAX)?;
        within("--queue", options.queue, QUEUE_MAX)?;
        let trace = match &options.trace {
            Some(path) => capture::read(path)?,
            None => Trace::bimodal(options.seed, options.packets),
        };
        let tally = |design| Tally::of(design, &trace, options.queue);
        let calls = |way| Ok((way, Calls::of(way, &trace)?));
        Ok(Self {
            tallies: DESIGNS.into_iter().map(tally).collect::<Result<_, _>>()?,
            calls: PATHS.into_iter().map(calls).collect::<Result<_, Error>>()?,
            queue: options.queue,
            trace,
        })
    }

    fn bins(&self, bins: Bins) -> Vec<Bin> {
        bins.count(self.trace.frames.iter().map(|frame| frame.len))
    }

    /// Small packets and large ones: where a bimodal trace has nearly all.
    fn modes(&self) -> [usize; 2] {
        let frames = || self.trace.frames.iter();
        [
            frames().filter(|frame| frame.len <= 128).count(),
            frames().filter(|frame| frame.len > 1024).count(),
        ]
    }

    fn tally(&self, design: &str) -> Option<&Tally> {
        self.tallies.iter().find(|t| t.design.name == design)
    }
}

fn within(what: &str, value: usize, most: usize) -> Result<(), Error> {
    match (1..=most).contains(&value) {
        true => Ok(()),
        false => Err(Error::Bad(format!(
            "{what} is from 1 to {most}, not {value}"
        ))),
    }
}

#[cfg(test)]
mod tests;

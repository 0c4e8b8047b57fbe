//! PacketSpec scripts: packetdrill's language on a stack in virtual time.
//!
//! ```text
//!   text -> preprocess -> lexer -> parser -> syntax      what a script says
//!   settings, command, sysctl                            what it sets: addresses, tolerance, tunables
//!   run        events in their order, time between them
//!     calls      what a program does                     expect   what the stack must send
//!     flow       the script's numbers and the wire's     packet   bytes
//!     states, asserts                                    what must be so
//!     header_field  changes to a packet's bytes
//!     host       the stack, its wire and its clock    family   over IPv6 too
//!   report     how it ended
//! ```
//!
//! A script needs no privileges and no real time. It sees a stack only through its sockets and its wire, so it does
//! not depend on how TCP is built.
//!
//! # Example
//! ```
//! use sim::script::{Script, Settings};
//!
//! let script = Script::parse("refused", "
//!     0  < S 0:0(0) win 1000
//!     +0 > R. 0:0(0) ack 1
//! ", &Default::default())?;
//! assert!(script.run(&Settings::default()).passed());
//! # Ok::<(), sim::script::SyntaxError>(())
//! ```
//!
//! Sources: "packetdrill: Scriptable Network Stack Testing, from Sockets to Packets" (USENIX ATC 2013).

use std::collections::BTreeSet;
use std::io::Write;

use crate::Pattern;

mod asserts;
mod calls;
mod command;
mod dialect;
mod expect;
mod flow;
mod header_field;
mod host;
mod icmp;
mod info;
mod lexer;
mod options;
mod packet;
mod parser;
mod preprocess;
mod report;
mod run;
mod settings;
mod show;
mod states;
mod syntax;
mod sysctl;

pub use dialect::Dialect;
pub use lexer::SyntaxError;
pub use report::{Failure, ScriptReport, ScriptVerdict};
pub use settings::Settings;
pub use syntax::Line;

use syntax::{ScriptEvent, Setting};

/// The bytes of a script's segments, by their place in the stream.
const FROM_SCRIPT: Pattern = Pattern::new(1);
/// The bytes that its program writes.
const FROM_STACK: Pattern = Pattern::new(2);

/// A script that was read.
#[derive(Debug, Clone)]
pub struct Script {
    name: String,
    dialect: Dialect,
    settings: Vec<Setting>,
    events: Vec<ScriptEvent>,
}

impl Script {
    /// Reads a script; `defines` are the names for its `#ifdef`.
    ///
    /// # Errors
    /// The text is no script; the error names the line.
    pub fn parse(
        name: impl Into<String>,
        text: &str,
        defines: &BTreeSet<String>,
    ) -> Result<Self, SyntaxError> {
        let (settings, events) = parser::parse(text, defines)?;
        let mut probe = Settings::default();
        for setting in &settings {
            probe.set(setting)?;
        }
        if let Some(mtu) = settings.iter().rfind(|setting| setting.name == "mtu") {
            let small = |why| SyntaxError::new(mtu.line, format!("--mtu: {why}"));
            probe.is_mtu_possible().map_err(small)?;
        }
        Ok(Self {
            name: name.into(),
            dialect: Dialect::of(text),
            settings,
            events,
        })
    }

    /// Runs it on a stack of its own. The script's own settings come before `settings`.
    pub fn run(&self, settings: &Settings) -> ScriptReport {
        run::run(self, settings, None)
    }

    /// The same, and writes all frames to a capture file.
    pub fn run_captured(&self, settings: &Settings, capture: Box<dyn Write>) -> ScriptReport {
        run::run(self, settings, Some(capture))
    }
}

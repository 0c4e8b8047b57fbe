//! `mbuma`, the tool: gives an unmodified program a network of its own, without root.
//!
//! Invariants: one thread until the guest is set up; nothing is printed on success unless an option requests it. Locks:
//! none here.

#![deny(unsafe_code)]

mod accept;
mod addressing;
mod args;
mod attach;
mod channel;
mod child;
mod descendants;
mod errors;
mod file_watch;
mod files;
mod gateway;
mod guest;
mod guests;
mod http;
mod idmap;
mod launch;
mod lifecycle;
mod lingering;
mod listening;
mod memory_limit;
mod monitor;
mod namespace_agent;
mod netstat;
mod network;
mod output;
mod pasta;
mod ports;
mod publish;
mod relay;
mod resolv_conf;
mod sandbox;
mod serve;
mod server_link;
mod serving_process;
mod signals;
mod special;
mod stall_relief;
#[allow(unsafe_code)]
mod sys;
mod tls;
mod vm;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;

use args::slirp4netns::SlirpArgs;
use args::{Args, Verb};
use errors::Error;
use kern::Random;

/// Exits with COMMAND's own status, or with one of [`errors`]'s after a text with advice.
fn main() -> ExitCode {
    abort_on_panic();
    let args = match Args::try_parse_from(args::words(std::env::args_os())) {
        Ok(args) => args,
        Err(answer) => return tell(&answer),
    };
    if let Err(e) = Random::try_from_os() {
        let doing = "asking the system for random numbers (getrandom)";
        return ExitCode::from(fail(Error::io(doing)(e)));
    }
    let outcome = match args.verb {
        Verb::Run(args) => {
            args.placed()
                .map_err(Error::Usage)
                .and_then(|args| match &args.network {
                    Some(name) => network::run(&args, name),
                    None => launch::run(&args),
                })
        }
        Verb::Attach(mut args) => args
            .net
            .place()
            .map_err(Error::Usage)
            .and_then(|()| attach::run(&args)),
        Verb::Netstat(args) => netstat::run(&args),
        Verb::Network(args) => network::manage(&args),
        Verb::Pasta(args) => pasta::run(&args),
        Verb::Passt { .. } => Err(Error::Usage(args::NO_PASST.to_owned())),
        Verb::Publish(args) => publish::run(&args),
        Verb::Relay(args) => relay::run(&args),
        Verb::Serve(args) => serve::run(args),
        Verb::Slirp4netns(args) => slirp4netns(args),
        Verb::Vm(mut args) => args
            .place()
            .map_err(Error::Usage)
            .and_then(|()| vm::run(&args)),
    };
    ExitCode::from(outcome.unwrap_or_else(fail))
}

/// A thread that breaks an invariant must not go on with half a state. The workspace's release profile says the same,
/// but a package (`cargo install`) and a debug build do not have it.
fn abort_on_panic() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        report(info);
        std::process::abort();
    }));
}

fn fail(error: Error) -> u8 {
    say(&error.to_string());
    error.exit_code()
}

/// Prints the help, the version, or what is wrong with the arguments. A closed pipe is no error, a full disk is.
fn tell(answer: &clap::Error) -> ExitCode {
    let code = answer.exit_code() as u8;
    if answer.use_stderr() {
        let text = answer.render().to_string();
        say(text.strip_prefix("error: ").unwrap_or(&text).trim_end());
        return ExitCode::from(code);
    }
    ExitCode::from(match answer.print() {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => fail(Error::io("printing the help")(e)),
        _ => code,
    })
}

/// `attach`, by the command line of slirp4netns.
fn slirp4netns(args: SlirpArgs) -> Result<u8, Error> {
    let attach = args.into_attach().map_err(Error::Usage)?;
    attach.map_or(Ok(0), |args| attach::run(&args))
}

/// Prints the address for clients, or the fingerprint of a certificate.
fn announce(verb: &str, place: &str) {
    print_line(&format!("{verb} {place}"));
}

/// Prints a line on standard output; a closed one is no error.
fn print_line(text: &str) {
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
}

/// Prints a line on standard error; a closed one is no error.
fn say(text: &str) {
    let mut err = io::stderr().lock();
    let _ = writeln!(err, "mbuma: {text}");
}

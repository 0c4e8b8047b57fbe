//! The storm, as long as one likes: `storm --help`.
//!
//! ```text
//! cargo run --release -p mbuma-uma --features stretched --example storm -- --seconds 30 --stretch 3000
//! ```
//!
//! It ends with 0 when every item was counted exactly once, else with 3: so does the negative
//! control (`--unarmed`), in which sections are not announced to the kernel. If the control does
//! not fail, the test proves nothing.

#[cfg(all(target_os = "linux", not(miri)))]
#[path = "../tests/storm/mod.rs"]
mod body;

#[cfg(all(target_os = "linux", not(miri)))]
fn main() {
    use std::process::exit;
    let (config, child) = match linux::parse(std::env::args().skip(1)) {
        Ok(parsed) => parsed,
        Err(text) => {
            eprintln!("{text}");
            exit(2);
        }
    };
    if !config.armed && !child {
        exit(linux::control());
    }
    if child {
        body::corruption_is_exit_3(config.time);
    }
    let outcome = body::run(&config);
    println!("{outcome}");
    exit(if outcome.is_clean() { 0 } else { 3 });
}

#[cfg(not(all(target_os = "linux", not(miri))))]
fn main() {
    eprintln!("there are no restartable sequences to test here");
}

#[cfg(all(target_os = "linux", not(miri)))]
mod linux {
    use crate::body::Config;
    use std::process::Command;
    use std::time::Duration;
    use uma::Backend;

    const HELP: &str = "storm [--seconds S] [--ops N] [--threads N] [--stretch PAUSES] [--seed N]
      [--backend rseq|lock] [--unarmed]
--stretch and --unarmed need the feature `stretched`. Exit: 0 every item once, 3 corrupted, 2 usage";

    /// The settings, and whether this is the child in which the control runs.
    pub(crate) fn parse(mut args: impl Iterator<Item = String>) -> Result<(Config, bool), String> {
        let mut config = Config::default();
        let mut child = false;
        while let Some(arg) = args.next() {
            let mut number = || {
                let value = args
                    .next()
                    .and_then(|value| value.replace('_', "").parse().ok());
                value.ok_or_else(|| format!("{arg} wants a number\n{HELP}"))
            };
            match &*arg {
                "--seconds" => config.time = Duration::from_secs(number()?),
                "--ops" => config.ops = number()?,
                "--threads" => config.threads = number()?.max(1) as usize,
                "--stretch" => config.stretch = number()? as u32,
                "--seed" => config.seed = number()?,
                "--unarmed" => config.armed = false,
                "--child" => child = true,
                "--backend" => {
                    config.backend = match args.next().as_deref() {
                        Some("rseq") => Backend::Rseq,
                        Some("lock") => Backend::Locked,
                        _ => return Err(HELP.to_owned()),
                    }
                }
                _ => return Err(HELP.to_owned()),
            }
        }
        if cfg!(not(feature = "stretched")) && (config.stretch > 0 || !config.armed) {
            return Err(format!("built without the feature `stretched`\n{HELP}"));
        }
        Ok((config, child))
    }

    /// Runs the same in a child, which may well crash; says how it ended, as an exit code.
    pub(crate) fn control() -> i32 {
        let this = std::env::current_exe().expect("this program has a file");
        let status = Command::new(this)
            .args(std::env::args().skip(1))
            .arg("--child")
            .status()
            .expect("this program can be run");
        println!("negative control: {status}");
        status.code().unwrap_or(1)
    }
}

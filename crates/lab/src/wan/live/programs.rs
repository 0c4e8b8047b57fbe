//! The programs of peers in other languages, built at their first use.
//!
//! | peer | how it comes here |
//! |---|---|
//! | lwIP | its sources are in the directory that `LWIP_SRC` names; `cc` compiles them with `lwip/main.c` |
//! | gVisor's netstack | `go build` of `netstack/main.go` gets the module by Go's proxy |
//!
//! Invariant: neither the build of this program nor its other designs need them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::{env, fs, io, process};

use super::super::path;
use crate::harness::choice::Absent;

/// A peer that is a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Program {
    /// lwIP: Reno; it repairs without SACK.
    Lwip,
    /// gVisor's netstack: CUBIC, RACK.
    Netstack,
}

/// Each program that was asked for with its window in bytes, and its file or why there is none.
static BUILT: Mutex<Option<Built>> = Mutex::new(None);

type Built = HashMap<(Program, usize), Result<PathBuf, Absent>>;

impl Program {
    /// The bytes of its socket buffers on this path: those with which it does best.
    pub(super) fn window(self, path: &path::Path) -> usize {
        match self {
            Self::Lwip => 3 * path.bdp() / 2,
            // It counts the memory that data takes, too.
            Self::Netstack => 2 * path.bdp(),
        }
    }

    /// Its file, for a window of so many bytes.
    ///
    /// # Errors
    /// [`Absent`]: its sources, its compiler or its modules are not there.
    pub(super) fn file(self, window: usize) -> Result<PathBuf, Absent> {
        let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
        let built = built.get_or_insert_default().entry((self, window));
        built.or_insert_with(|| self.build(window)).clone()
    }

    fn build(self, window: usize) -> Result<PathBuf, Absent> {
        let dir = env::temp_dir().join(format!("mbuma-lab-{self:?}-{window}-{}", process::id()));
        fs::create_dir_all(dir.join("arch"))
            .map_err(|error| Absent(format!("{}: {error}", dir.display())))?;
        let file = dir.join("program");
        match self {
            Self::Lwip => lwip(&dir, &file, window)?,
            Self::Netstack => netstack(&dir, &file)?,
        }
        Ok(file)
    }
}

fn lwip(dir: &Path, file: &Path, window: usize) -> Result<(), Absent> {
    let Some(sources) = env::var_os("LWIP_SRC").map(|root| PathBuf::from(root).join("src")) else {
        return Err(Absent(
            "LWIP_SRC does not name lwIP\u{2019}s directory".to_owned(),
        ));
    };
    write(&dir.join("main.c"), include_str!("lwip/main.c"))?;
    write(&dir.join("lwipopts.h"), include_str!("lwip/lwipopts.h"))?;
    write(&dir.join("arch/cc.h"), include_str!("lwip/cc.h"))?;
    let mut cc = Command::new("cc");
    cc.args(["-O2", "-w"]).arg(format!("-DWINDOW={window}"));
    cc.arg("-I").arg(dir).arg("-I").arg(sources.join("include"));
    cc.arg("-o").arg(file).arg(dir.join("main.c"));
    for part in ["core", "core/ipv4"] {
        cc.args(c_files(&sources.join(part))?);
    }
    succeed(cc.arg(sources.join("netif/ethernet.c")))
}

fn c_files(dir: &Path) -> Result<Vec<PathBuf>, Absent> {
    let list = || -> io::Result<Vec<PathBuf>> {
        let paths = fs::read_dir(dir)?.map(|entry| Ok(entry?.path()));
        paths.collect()
    };
    let mut files = list().map_err(|error| Absent(format!("{}: {error}", dir.display())))?;
    files.retain(|file| file.extension().is_some_and(|end| end == "c"));
    Ok(files)
}

fn netstack(dir: &Path, file: &Path) -> Result<(), Absent> {
    write(&dir.join("main.go"), include_str!("netstack/main.go"))?;
    write(&dir.join("go.mod"), include_str!("netstack/go.mod"))?;
    write(&dir.join("go.sum"), include_str!("netstack/go.sum"))?;
    let mut go = Command::new("go");
    succeed(go.current_dir(dir).args(["build", "-o"]).arg(file))
}

fn write(file: &Path, text: &str) -> Result<(), Absent> {
    fs::write(file, text).map_err(|error| Absent(format!("{}: {error}", file.display())))
}

/// Runs a compiler.
fn succeed(command: &mut Command) -> Result<(), Absent> {
    let name = command.get_program().display().to_string();
    match command.output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            let line = said.lines().find(|line| line.contains("error"));
            let line = line.or(said.lines().last()).unwrap_or_default();
            Err(Absent(format!("{name} failed: {line}")))
        }
        Err(error) => Err(Absent(format!("{name}: {error}"))),
    }
}

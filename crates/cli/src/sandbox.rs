//! The gateway process gives up all rights that it does not need, once all files are open and before it reads the
//! guest's first packet.
//!
//! | layer | rights left to code that a packet took over | file |
//! |---|---|---|
//! | root | an empty, read-only file system (a mount namespace) | [`empty_root`] |
//! | user | `nobody`, if it was root; no capability in any set | [`credentials`] |
//! | privileges | no set-user-id program would help; no process of the user may trace it | [`credentials`] |
//! | files | none but those of a served directory, to be read, by Landlock: also where no namespace could be made; no listening TCP port, no signal to others | [`landlocked`] |
//! | system calls | those that serving needs | [`syscalls`] |
//!
//! No layer relies on another. A layer that the system lacks is named on standard error, unless another one covers it,
//! and `mbuma netstat` shows all of them.
//!
//! The user: root becomes `nobody` (65534) rather than the root of a user namespace, because the latter still owns
//! root's files and processes by its number on the host. In a user namespace that maps no other number (an engine's),
//! it stays: the number means an ordinary user there.
//!
//! Invariants: one thread when [`enter`] is called, so that every later thread has inherited all of it.
//! Locks: none.

mod credentials;
mod empty_root;
#[cfg(debug_assertions)]
pub(crate) mod exploit;
mod landlocked;
mod syscalls;

use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;

use rustix::thread::CapabilitySet;
use serde::Serialize;

use crate::args::NetOpts;
use crate::errors::Error;
use crate::say;
use crate::sys::process;

/// The state of each layer.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Isolation {
    /// Nothing of this was asked for (`--no-sandbox`).
    off: bool,
    /// It reads the files below a directory.
    serves: bool,
    /// The user that the process runs as.
    user: u32,
    /// It is not root's any more, nor any of its groups.
    nobody: Layer,
    capabilities: Layer,
    root: Layer,
    landlock: Layer,
    system_calls: Layer,
}

/// One layer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Layer {
    /// It is not there.
    #[default]
    Off,
    /// It is there.
    On,
    /// The system does not provide it.
    Failed(String),
}

impl Layer {
    fn of(done: io::Result<()>) -> Layer {
        match done {
            Ok(()) => Layer::On,
            Err(e) => Layer::Failed(e.to_string()),
        }
    }

    fn is_on(&self) -> bool {
        *self == Layer::On
    }
}

/// Work beside packets and host sockets.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Uses<'a> {
    /// Files below this directory are read.
    pub(crate) served: Option<BorrowedFd<'a>>,
    /// Sockets are bound to an address: `--outbound-addr`.
    pub(crate) binds: bool,
    /// Sockets are bound to an interface: `--interface`.
    pub(crate) names_interface: bool,
    /// [`mbuma::runtime`] starts its threads later.
    pub(crate) runtime: bool,
    /// A virtual machine shares its memory later.
    pub(crate) shared_memory: bool,
}

/// What `--no-sandbox` means.
pub(crate) const NO_SANDBOX: &str =
    "--no-sandbox: the process that reads the guest's packets keeps all rights that mbuma has";

/// Gives everything up, unless `--no-sandbox` says otherwise; reports each missing layer. The rights for `uses`
/// stay.
///
/// # Errors
/// A layer is missing, and an option requires it.
pub(crate) fn enter(net: &NetOpts, uses: &Uses<'_>) -> Result<Isolation, Error> {
    let served = uses.served;
    if net.no_sandbox {
        say(NO_SANDBOX);
        return Ok(Isolation {
            off: true,
            user: process::ids().0,
            ..Isolation::default()
        });
    }
    let may_be_root = credentials::maps_all_users();
    let root = Layer::of(empty_root::enter());
    let [nobody, capabilities] = credentials::give_up().map(Layer::of);
    let landlock = Layer::of(landlocked::enter(uses.binds, served));
    // No call needs it later.
    let user = process::ids().0;
    #[cfg(debug_assertions)]
    if exploit::is_without_filter() {
        return Ok(Isolation::default());
    }
    let system_calls = Layer::of(syscalls::restrict(uses));
    let isolation = Isolation {
        off: false,
        serves: served.is_some(),
        user,
        nobody: if may_be_root { nobody } else { Layer::Off },
        capabilities,
        root,
        landlock,
        system_calls,
    };
    match isolation.lack() {
        Some(lack) if net.demands_isolation => {
            Err(Error::io("giving up rights")(io::Error::other(lack)))
        }
        Some(lack) => {
            say(&format!("warning: less isolation than usual: {lack}"));
            Ok(isolation)
        }
        None => Ok(isolation),
    }
}

/// The rights that a process without packets keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    /// The guard's: signals to processes of other users, since COMMAND may have started some.
    Signals,
    /// The monitor's: the same; low ports, which may be published at any time; and looking for the namespace's name,
    /// which may lie in another user's directory.
    Monitor,
    /// The configuration of the network namespace that the helper of `attach` has entered; and what it keeps after
    /// that.
    NetworkSetup,
    /// Low ports of that namespace.
    LowPorts,
}

/// The monitor, the guard and the helper of `attach`: each keeps the rights that its work needs, if it has them. They
/// parse no input from a guest or a network, so this is a second line of defence, and its failure does not stop mbuma.
pub(crate) fn keep_only(kept: Kept) {
    let _ = credentials::keep_only(match kept {
        Kept::Signals => CapabilitySet::KILL,
        Kept::Monitor => {
            CapabilitySet::KILL | CapabilitySet::NET_BIND_SERVICE | CapabilitySet::DAC_READ_SEARCH
        }
        Kept::NetworkSetup => CapabilitySet::NET_ADMIN | CapabilitySet::NET_BIND_SERVICE,
        Kept::LowPorts => CapabilitySet::NET_BIND_SERVICE,
    });
}

impl Isolation {
    /// The missing layers that no other layer covers, on one line.
    fn lack(&self) -> Option<String> {
        let files = match (&self.root, &self.landlock) {
            (Layer::Failed(root), Layer::Failed(landlock)) => {
                Some(format!("files (namespace: {root}; Landlock: {landlock})"))
            }
            _ => None,
        };
        let failed = |what: &str, layer: &Layer| match layer {
            Layer::Failed(why) => Some(format!("{what} ({why})")),
            Layer::On | Layer::Off => None,
        };
        let lacks = [
            files,
            failed("user and groups", &self.nobody),
            failed("capabilities", &self.capabilities),
            failed("system calls", &self.system_calls),
        ];
        let lacks: Vec<_> = lacks.into_iter().flatten().collect();
        (!lacks.is_empty()).then(|| lacks.join(", "))
    }
}

impl fmt::Display for Isolation {
    /// `user 65534, no capabilities, empty root, Landlock, system calls`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "user {}", self.user)?;
        let layers = [
            ("no capabilities", &self.capabilities),
            ("empty root", &self.root),
            ("Landlock", &self.landlock),
            ("few system calls", &self.system_calls),
        ];
        if layers.iter().all(|(_, layer)| !layer.is_on()) {
            return f.write_str(", nothing given up");
        }
        if self.serves {
            f.write_str(", reads the served directory")?;
        }
        for (name, layer) in layers {
            match layer {
                Layer::On => write!(f, ", {name}")?,
                Layer::Off | Layer::Failed(_) => write!(f, ", not: {name}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;

//! The web site of a gateway: the status page, and served files if there are any.
//!
//! Locks: none.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use mbuma::Stack;
use rustls::ServerConfig;

use crate::announce;
use crate::args::NetOpts;
use crate::args::serve::{CACHE, ServeOpts, TlsIdentity};
use crate::errors::Error;
use crate::files::{NamesRoom, ServedTree};
use crate::gateway::web::{FileStorage, LogFile, Responder, SharedFixed, SiteFiles, WebSite};
use crate::guest::GuestEnd;
use crate::memory_limit::MemoryLimit;
use crate::sys::limits;
use crate::tls::{self, ServerTls};

/// The path of served files, where the status page has the root.
const FILES_PREFIX: &str = "/files";
/// The path of the status page, where served files have the root: no file's, as it begins with a dot.
const PAGES_PREFIX: &str = "/.mbuma";
/// One descriptor in this many may be a served file that is kept open.
const SERVED_FILES_SHARE: usize = 8;
/// Connections to that port that wait at most.
const HTTP_BACKLOG: usize = 1024;

/// The address of the status page. A gateway of the host's network may have a page of its own.
pub(super) fn pages(ends: &GuestEnd, port: u16) -> Vec<SocketAddr> {
    let v4 = ends.v4.filter(|v4| !v4.routed);
    let v4 = v4.map(|v4| IpAddr::from(v4.gateway));
    let v6 = ends.v6.filter(|v6| !v6.routed);
    let v6 = v6.map(|v6| IpAddr::from(v6.gateway));
    let both = v4.into_iter().chain(v6);
    both.map(|gateway| SocketAddr::new(gateway, port)).collect()
}

/// Opens the status page, and the files if there are any.
pub(super) fn site(
    stack: &Stack,
    at: &[SocketAddr],
    opts: &NetOpts,
    workers: usize,
    fixed: &SharedFixed,
) -> Result<Arc<WebSite>, Error> {
    let ServeOpts {
        dir,
        log,
        no_listing,
        tls,
        alone,
        cache,
    } = &opts.serve;
    let memory = MemoryLimit::read();
    let bytes = match dir {
        Some(_) => cache.unwrap_or_else(|| memory.files(CACHE)),
        None => 0,
    };
    let storage = FileStorage::new(served_files_max(), bytes);
    let files = |dir: &PathBuf| {
        let doing = format!("opening {} to serve it", dir.display());
        let tree = ServedTree::open(dir).map_err(Error::io(&doing))?;
        Ok::<_, Error>(SiteFiles {
            tree,
            cache: storage.cache.clone(),
            names_room: NamesRoom::default(),
            prefix: if alone.is_some() { "" } else { FILES_PREFIX },
            listing: !no_listing,
        })
    };
    let files = dir.as_ref().map(files).transpose()?;
    let open_log = |path: &PathBuf| {
        let doing = format!("opening the log {}", path.display());
        LogFile::open(path).map_err(Error::io(&doing))
    };
    let log = log.as_ref().map(open_log).transpose()?;
    let tls = tls.as_ref().map(|identity| server_tls(identity, at));
    let listen = |at: &SocketAddr| stack.tcp_listen(*at, HTTP_BACKLOG);
    let listeners = at.iter().map(listen).collect::<Result<_, _>>();
    let listeners = listeners.map_err(|e| Error::stack("listening for HTTP", e))?;
    let pages = match alone {
        None => Some(""),
        Some(alone) => alone.status.then_some(PAGES_PREFIX),
    };
    let connections_max = memory.connections(opts.serve.connections_max());
    let handshakes_max = memory.handshakes(connections_max);
    Ok(Arc::new(WebSite {
        listeners,
        responder: Responder::new(fixed.clone(), pages, files),
        tls: tls.transpose()?,
        storage,
        log,
        connections_max: (connections_max / workers).max(1),
        handshakes_max: (handshakes_max / workers).max(1),
        drains: alone.is_some(),
    }))
}

/// Files that are kept open at most.
fn served_files_max() -> usize {
    limits::descriptors() / SERVED_FILES_SHARE
}

/// The configuration of TLS. Prints the fingerprint of a certificate that mbuma made.
fn server_tls(identity: &TlsIdentity, at: &[SocketAddr]) -> Result<Arc<ServerConfig>, Error> {
    let addrs: Vec<IpAddr> = at.iter().map(SocketAddr::ip).collect();
    let tls = ServerTls::of(identity, &addrs, &tls::ALPN_HTTP)?;
    if *identity == TlsIdentity::SelfSigned {
        announce("the certificate's SHA-256 is", &tls.fingerprint());
    }
    Ok(tls.config)
}

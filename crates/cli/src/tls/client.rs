//! A client of TLS: the certificates that it trusts, and the protocols that it asks for.
//!
//! Invariants: a server is trusted if its certificate is valid for the requested name, at this time, and a trusted
//! certificate has signed it. Files are read before the process gives up the file system. Locks: none.

use std::path::Path;
use std::sync::Arc;

use mbuma::socket::HandshakeError;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};

use super::{chain, other, suites};
use crate::errors::Error;

/// The files of trusted certificates on Debian, Fedora, and other systems.
const SYSTEM_FILES: [&str; 3] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
];

/// A client of one server.
pub(crate) struct ClientTls {
    name: ServerName<'static>,
    /// Asks for all protocols.
    all: Arc<ClientConfig>,
    /// Ask for one protocol each.
    each: Vec<(Vec<u8>, Arc<ClientConfig>)>,
    /// Asks for none.
    none: Arc<ClientConfig>,
}

impl ClientTls {
    /// A client of the server `name`, which trusts the certificates in the file `ca`, or those of the system, and asks
    /// for the protocols `alpn`.
    ///
    /// # Errors
    /// The file can't be read, or has no certificate or a damaged one; the system has no such file.
    pub(crate) fn of(
        name: ServerName<'static>,
        ca: Option<&Path>,
        alpn: &[&[u8]],
    ) -> Result<ClientTls, Error> {
        let roots = Arc::new(match ca {
            Some(file) => of_file(file)?,
            None => of_system()?,
        });
        let config = |alpn: &[&[u8]]| {
            let made = config(Arc::clone(&roots), alpn).map_err(other);
            made.map(Arc::new).map_err(Error::io("preparing TLS"))
        };
        let each = alpn.iter().map(|one| Ok((one.to_vec(), config(&[one])?)));
        Ok(ClientTls {
            name,
            all: config(alpn)?,
            each: each.collect::<Result<_, Error>>()?,
            none: config(&[])?,
        })
    }

    /// The server's name.
    pub(crate) fn name(&self) -> ServerName<'static> {
        self.name.clone()
    }

    /// The configuration that asks for all protocols.
    pub(crate) fn asks_for_all(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.all)
    }

    /// The configuration that asks for this protocol alone, or for none.
    pub(crate) fn asks_for(&self, protocol: Option<&[u8]>) -> Arc<ClientConfig> {
        let found = protocol.and_then(|wanted| self.each.iter().find(|(one, _)| one == wanted));
        Arc::clone(found.map_or(&self.none, |(_, config)| config))
    }
}

/// Why a handshake with the server failed, for people.
pub(crate) fn reason(error: &HandshakeError) -> String {
    let text = error.to_string();
    // rustls does not show webpki's error as a type; a test has the text of the present version.
    match text.contains("CaUsedAsEndEntity") {
        true => "its certificate is one of an authority (CA:TRUE), which rustls takes from no server: have the \
                 authority sign one for it, or make it with `-addext basicConstraints=CA:FALSE`"
            .to_owned(),
        false => text,
    }
}

fn config(roots: Arc<RootCertStore>, alpn: &[&[u8]]) -> Result<ClientConfig, rustls::Error> {
    let builder = ClientConfig::builder_with_provider(suites())
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots);
    let mut config = builder.with_no_client_auth();
    config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
    // The stack seals.
    config.enable_secret_extraction = true;
    Ok(config)
}

/// The certificates of a file that the user names: all of them are meant.
fn of_file(file: &Path) -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    let doing = format!("trusting the certificates of {}", file.display());
    for certificate in chain(file)? {
        let added = roots.add(certificate).map_err(other);
        added.map_err(Error::io(&doing))?;
    }
    Ok(roots)
}

/// Those of the system, of which one may be of a kind that the library does not know.
fn of_system() -> Result<RootCertStore, Error> {
    let there = SYSTEM_FILES
        .iter()
        .map(Path::new)
        .find(|file| file.exists());
    let Some(file) = there else {
        let files = SYSTEM_FILES.join(", ");
        let why =
            format!("this system has no list of trusted certificates ({files}): name one by --ca");
        return Err(Error::Usage(why));
    };
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(chain(file)?);
    Ok(roots)
}

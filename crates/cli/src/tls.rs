//! The certificate and the key of a server, and how the handshake library uses them. A [client's](client) trust.
//!
//! Both versions of TLS, the AEADs alone. The server's order of suites counts, with AES-128-GCM first: it seals 17 %
//! more bytes in the same time than AES-256-GCM, and seven times as many as ChaCha20-Poly1305.
//!
//! Invariants: only the process that speaks TLS has a key, and nothing prints it. Files are read before that process
//! gives up the file system. Locks: none.

use std::fmt::Write;
use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use aws_lc_rs::digest;
use rcgen::{CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, KeyPair};
use rustls::ServerConfig;
use rustls::client::verify_server_name;
use rustls::crypto::{CryptoProvider, aws_lc_rs as provider};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::server::{ClientHello, ParsedCertificate, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use crate::args::serve::{IdentityFiles, TlsIdentity};
use crate::errors::Error;

mod client;

pub(crate) use client::{ClientTls, reason};

/// The protocols above a web server's TLS (RFC 7301).
pub(crate) const ALPN_HTTP: [&[u8]; 2] = [b"http/1.1", b"http/1.0"];
/// The validity of a certificate that is made at the start, and the time by which a client's clock may be behind.
const VALID: Duration = Duration::from_secs(365 * DAY);
const CLOCK_SLACK: Duration = Duration::from_secs(DAY);
/// Seconds.
const DAY: u64 = 24 * 60 * 60;

/// The configuration of all connections of a server, and the bytes of its certificate.
pub(crate) struct ServerTls {
    pub(crate) config: Arc<ServerConfig>,
    certificate: CertificateDer<'static>,
}

impl ServerTls {
    /// A server at `addrs`. If `alpn` has protocols, clients that name others alone are refused; the first one counts
    /// that a client names too.
    ///
    /// # Errors
    /// A file can't be read, or has no certificate or key; the two do not belong together.
    pub(crate) fn of(
        identity: &TlsIdentity,
        addrs: &[IpAddr],
        alpn: &[&[u8]],
    ) -> Result<ServerTls, Error> {
        let making = || Error::io("making a certificate");
        let keys = match identity {
            TlsIdentity::SelfSigned => {
                let (certificate, key) = self_signed(addrs).map_err(other).map_err(making())?;
                let certified = certified(vec![certificate], key);
                vec![Arc::new(certified.map_err(making())?)]
            }
            TlsIdentity::Files(all) => all.iter().map(of_files).collect::<Result<_, Error>>()?,
        };
        let first = keys.first().and_then(|first| first.cert.first().cloned());
        let config = config(ServerNames(keys), alpn).map_err(other);
        Ok(ServerTls {
            config: Arc::new(config.map_err(making())?),
            certificate: first.unwrap_or_else(|| CertificateDer::from(Vec::new())),
        })
    }

    /// The SHA-256 digest of the certificate, as browsers and `openssl x509 -fingerprint` show it.
    pub(crate) fn fingerprint(&self) -> String {
        let digest = digest::digest(&digest::SHA256, &self.certificate);
        let mut text = String::with_capacity(96);
        for (n, byte) in digest.as_ref().iter().enumerate() {
            let colon = if n == 0 { "" } else { ":" };
            // Writing to a string can't fail.
            let _ = write!(text, "{colon}{byte:02X}");
        }
        text
    }
}

/// The certificates of a server, each for its names.
#[derive(Debug)]
struct ServerNames(Vec<Arc<CertifiedKey>>);

impl ServerNames {
    /// The first certificate that has the name, or the first one of all.
    fn find(&self, name: Option<&str>) -> Option<&Arc<CertifiedKey>> {
        let name = name.and_then(|name| ServerName::try_from(name).ok());
        let named = name.and_then(|name| self.0.iter().find(|key| has_name(key, &name)));
        named.or(self.0.first())
    }
}

impl ResolvesServerCert for ServerNames {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        match &*self.0 {
            [only] => Some(Arc::clone(only)),
            _ => self.find(hello.server_name()).cloned(),
        }
    }
}

fn has_name(key: &CertifiedKey, name: &ServerName<'_>) -> bool {
    let certificate = key.cert.first().map(ParsedCertificate::try_from);
    certificate.is_some_and(|certificate| {
        certificate.is_ok_and(|certificate| verify_server_name(&certificate, name).is_ok())
    })
}

/// A certificate and its key from two files.
fn of_files(files: &IdentityFiles) -> Result<Arc<CertifiedKey>, Error> {
    let IdentityFiles { certificates, key } = files;
    let doing = format!(
        "using the certificate {} with the key {}",
        certificates.display(),
        key.display()
    );
    let certified = certified(chain(certificates)?, private_key(key)?);
    Ok(Arc::new(certified.map_err(Error::io(&doing))?))
}

/// The two, if they belong together.
fn certified(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> io::Result<CertifiedKey> {
    let certified = CertifiedKey::from_der(chain, key, &provider::default_provider());
    certified.map_err(|e| match e {
        rustls::Error::InconsistentKeys(_) => io::Error::other(
            "the key is not that of the file's first certificate, which must be the server's own;\n  \
             those of its issuers follow it",
        ),
        // The provider's only error for a key.
        rustls::Error::General(_) => io::Error::other(
            "no key of this kind serves: RSA of 2048 to 8192 bits does,\n  \
             ECDSA of P-256, P-384 or P-521, and Ed25519",
        ),
        e => other(e),
    })
}

/// A key, and a certificate for `addrs` that it signs itself.
fn self_signed(
    addrs: &[IpAddr],
) -> Result<(CertificateDer<'static>, PrivateKeyDer<'static>), rcgen::Error> {
    let key = KeyPair::generate()?;
    let mut params =
        CertificateParams::new(addrs.iter().map(IpAddr::to_string).collect::<Vec<_>>())?;
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, "mbuma");
    params.distinguished_name = name;
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let now = rcgen::date_time_ymd(1970, 1, 1) + now.unwrap_or_default();
    (params.not_before, params.not_after) = (now - CLOCK_SLACK, now + VALID);
    let certificate = params.self_signed(&key)?;
    let key = PrivatePkcs8KeyDer::from(key.serialize_der());
    Ok((certificate.der().clone(), PrivateKeyDer::from(key)))
}

/// The certificates in a file.
fn chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let read = || {
        let all = CertificateDer::pem_file_iter(path)?;
        let all = all.collect::<Result<Vec<_>, _>>()?;
        if all.is_empty() {
            Err(pem::Error::NoItemsFound)
        } else {
            Ok(all)
        }
    };
    let doing = format!("reading the certificate {}", path.display());
    let chain = read().map_err(|e| unreadable(e, "certificate"));
    chain.map_err(Error::io(&doing))
}

/// The first key in a file.
fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, Error> {
    let doing = format!("reading the key {}", path.display());
    let read = || {
        let text = fs::read(path)?;
        PrivateKeyDer::from_pem_slice(&text).map_err(|e| match is_encrypted(&text) {
            true => io::Error::other(
                "it is encrypted, and mbuma asks for no passphrase:\n  \
                 `openssl pkey -in KEY -out FILE` writes a file without one",
            ),
            false => unreadable(e, "private key"),
        })
    };
    read().map_err(Error::io(&doing))
}

/// Whether PEM holds a key that takes a passphrase: in PKCS #8 (RFC 7468), or in the older form with RFC 1421's header.
fn is_encrypted(text: &[u8]) -> bool {
    let marks = [
        &b"BEGIN ENCRYPTED PRIVATE KEY"[..],
        b"Proc-Type: 4,ENCRYPTED",
    ];
    marks
        .iter()
        .any(|mark| text.windows(mark.len()).any(|part| part == *mark))
}

/// The error for a bad file, without any of its bytes, because it may be a damaged key.
fn unreadable(e: pem::Error, wanted: &str) -> io::Error {
    match e {
        pem::Error::Io(e) => e,
        pem::Error::NoItemsFound => io::Error::other(format!("there is no {wanted} in PEM in it")),
        _ => io::Error::other("it is damaged, or not PEM"),
    }
}

/// The suites, those that seal fastest first.
pub(crate) fn suites() -> Arc<CryptoProvider> {
    let mut provider = provider::default_provider();
    // Stable: what is equal stays in rustls' order, TLS 1.3 first.
    provider.cipher_suites.sort_by_key(|suite| {
        let name = format!("{:?}", suite.suite());
        (
            suite.version().version != rustls::ProtocolVersion::TLSv1_3,
            !name.contains("AES_128_GCM"),
        )
    });
    Arc::new(provider)
}

fn config(names: ServerNames, alpn: &[&[u8]]) -> Result<ServerConfig, rustls::Error> {
    let builder = ServerConfig::builder_with_provider(suites())
        .with_safe_default_protocol_versions()?
        .with_no_client_auth();
    let mut config = builder.with_cert_resolver(Arc::new(names));
    config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
    config.ignore_client_order = true;
    // The stack seals.
    config.enable_secret_extraction = true;
    Ok(config)
}

fn other(e: impl std::error::Error + Send + Sync + 'static) -> io::Error {
    io::Error::other(e)
}

#[cfg(test)]
mod tests;

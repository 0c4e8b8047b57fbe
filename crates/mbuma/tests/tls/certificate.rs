//! A certificate, and configurations that know it.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{self, aws_lc_rs};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, DigitallySignedStruct, Error, ServerConfig, SignatureScheme, SupportedCipherSuite,
};

pub(super) const CERTIFICATE: &[u8] = include_bytes!("cert.der");
const KEY: &[u8] = include_bytes!("key.der");
/// The same key for ECDSA alone: suites of TLS 1.2 with RSA can't be used with it.
const ALGORITHMS: fn() -> crypto::WebPkiSupportedAlgorithms =
    || aws_lc_rs::default_provider().signature_verification_algorithms;

/// Takes this certificate and no other one; its dates are not looked at.
#[derive(Debug)]
struct ThisOne;

impl ServerCertVerifier for ThisOne {
    fn verify_server_cert(
        &self,
        end: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        assert_eq!(end.as_ref(), CERTIFICATE);
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        crypto::verify_tls12_signature(message, cert, dss, &ALGORITHMS())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        crypto::verify_tls13_signature(message, cert, dss, &ALGORITHMS())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        ALGORITHMS().supported_schemes()
    }
}

/// A client that offers these suites; all, if none is named.
pub(super) fn client_config(suites: &[SupportedCipherSuite]) -> ClientConfig {
    let mut provider = aws_lc_rs::default_provider();
    if !suites.is_empty() {
        provider.cipher_suites = suites.to_vec();
    }
    let versions: Vec<_> = rustls::ALL_VERSIONS
        .iter()
        .copied()
        .filter(|v| provider.cipher_suites.iter().any(|s| s.version() == *v))
        .collect();
    let builder = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(&versions)
        .expect("the suites have these versions");
    let mut config = builder
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(ThisOne))
        .with_no_client_auth();
    config.enable_secret_extraction = true;
    config
}

pub(super) fn server_config() -> ServerConfig {
    let certificate = CertificateDer::from_slice(CERTIFICATE);
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(KEY));
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("both versions")
        .with_no_client_auth();
    let mut config = builder
        .with_single_cert(vec![certificate], key)
        .expect("the key is the certificate's");
    config.enable_secret_extraction = true;
    config
}

use std::fs;
use std::net::Ipv4Addr;
use std::path::PathBuf;

use mbuma::socket::HandshakeError;
use rcgen::PublicKeyData;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::UnixTime;

use super::*;

const ADDR: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2));

/// A file that the end of the test removes.
struct PemFile(PathBuf);

impl PemFile {
    fn new(name: &str, content: &str) -> PemFile {
        let path = std::env::temp_dir().join(format!("mbuma-tls-{}-{name}", std::process::id()));
        fs::write(&path, content).expect("the temporary directory can be written");
        PemFile(path)
    }
}

impl Drop for PemFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// In PEM (RFC 7468). Not by base64(1): a started process gets copies of all descriptors, and other tests of this
/// program expect that a socket ends when they drop it.
fn pem(der: &[u8], kind: &str) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let quad = |three: &[u8]| {
        let byte = |n| u32::from(*three.get(n).unwrap_or(&0));
        let word = byte(0) << 16 | byte(1) << 8 | byte(2);
        let digit = |n| match n <= three.len() {
            true => char::from(DIGITS[(word >> (18 - 6 * n)) as usize % 64]),
            false => '=',
        };
        (0..4).map(digit).collect::<String>()
    };
    let lines: Vec<String> = der
        .chunks(48)
        .map(|line| line.chunks(3).map(quad).collect())
        .collect();
    let text = lines.join("\n");
    format!("-----BEGIN {kind}-----\n{text}\n-----END {kind}-----\n")
}

/// The error of these two files.
fn refused(certificate: &str, key: &str) -> String {
    let (c, k) = (PemFile::new("c", certificate), PemFile::new("k", key));
    let identity = TlsIdentity::Files(vec![IdentityFiles {
        certificates: c.0.clone(),
        key: k.0.clone(),
    }]);
    match ServerTls::of(&identity, &[ADDR], &[]) {
        Ok(_) => panic!("taken"),
        Err(e) => e.to_string(),
    }
}

#[test]
fn the_first_suites_are_those_that_seal_fastest() {
    // Breaks when rustls changes the order of its suites, and each server seals a sixth less.
    let tls = ServerTls::of(&TlsIdentity::SelfSigned, &[ADDR], &[]).expect("a certificate");
    let suites = &tls.config.crypto_provider().cipher_suites;
    let names: Vec<_> = suites.iter().map(|s| format!("{:?}", s.suite())).collect();
    assert_eq!(
        names.first().map(String::as_str),
        Some("TLS13_AES_128_GCM_SHA256")
    );
    let of12 = names.iter().find(|name| !name.starts_with("TLS13"));
    assert!(
        of12.is_some_and(|name| name.contains("AES_128_GCM")),
        "{names:?}"
    );
    assert_eq!(names.len(), 9);
}

#[test]
fn each_certificate_is_new_and_its_fingerprint_tells_it() {
    // Breaks when a key is built in, or the fingerprint is not that of the certificate that clients get.
    let made = || ServerTls::of(&TlsIdentity::SelfSigned, &[ADDR], &[]).expect("a certificate");
    let (a, b) = (made(), made());
    assert_ne!(a.fingerprint(), b.fingerprint());
    assert_eq!(a.fingerprint().len(), 32 * 3 - 1);
    assert_eq!(a.fingerprint(), a.fingerprint());
}

#[test]
fn files_that_are_of_no_use_are_named_and_not_shown() {
    // Breaks when an error message shows bytes of a key, or a useless file is only found at a client's first
    // connection.
    let key = KeyPair::generate().expect("a key");
    let other = KeyPair::generate().expect("a key");
    assert_ne!(key.der_bytes(), other.der_bytes());
    let params = CertificateParams::new(["a.test".to_owned()]).expect("a name");
    let certificate = params.self_signed(&key).expect("a certificate");
    let certificate = pem(certificate.der(), "CERTIFICATE");
    let (good, wrong) = (
        pem(&key.serialize_der(), "PRIVATE KEY"),
        pem(&other.serialize_der(), "PRIVATE KEY"),
    );
    let cut = good.replace("-----END PRIVATE KEY-----", "-----END");
    for (c, k) in [
        (&*certificate, ""),
        (&*certificate, &*cut),
        (&*certificate, &*wrong),
        (&*certificate, &*certificate),
        ("", &*good),
        (&*good, &*good),
        ("text", "text"),
    ] {
        let error = refused(c, k);
        let shown = good
            .lines()
            .chain(cut.lines())
            .filter(|line| line.len() > 20);
        assert!(
            !shown.into_iter().any(|line| error.contains(line)),
            "{error}"
        );
        assert!(error.contains("mbuma-tls-"), "{error}");
    }
    let (c, k) = (
        PemFile::new("good-c", &certificate),
        PemFile::new("good-k", &good),
    );
    let identity = TlsIdentity::Files(vec![IdentityFiles {
        certificates: c.0.clone(),
        key: k.0.clone(),
    }]);
    assert!(ServerTls::of(&identity, &[ADDR], &[]).is_ok());
}

#[test]
fn the_error_for_a_key_or_a_chain_says_what_to_do() {
    // Breaks when the user of an encrypted key, of a chain in the wrong order, or of a key of a kind that does not
    // serve gets the library's words.
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new(["a.test".to_owned()]).expect("a name");
    let own = params.self_signed(&key).expect("a certificate");
    let issuer = KeyPair::generate().expect("a key");
    let issuers = params.self_signed(&issuer).expect("a certificate");
    let [own, issuers] = [own, issuers].map(|made| pem(made.der(), "CERTIFICATE"));
    let good = pem(&key.serialize_der(), "PRIVATE KEY");
    let encrypted = pem(&key.serialize_der(), "ENCRYPTED PRIVATE KEY");
    let header = "-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\nAAAA\n\
                  -----END EC PRIVATE KEY-----\n";
    let unknown = pem(&[0x30, 0], "PRIVATE KEY");
    for (c, k, advice) in [
        (own.clone(), &*encrypted, "openssl pkey"),
        (own.clone(), header, "openssl pkey"),
        (
            format!("{issuers}{own}"),
            &*good,
            "must be the server's own",
        ),
        (own.clone(), &*unknown, "P-256"),
    ] {
        let error = refused(&c, k);
        assert!(error.contains(advice), "{error}");
    }
}

#[test]
fn a_client_gets_the_certificate_of_the_name_that_it_asks_for() {
    // Breaks when clients of a second name get the first one's certificate, or those without a name get none.
    let key_of = |names: &[&str]| {
        let key = KeyPair::generate().expect("a key");
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let params = CertificateParams::new(names).expect("names");
        let certificate = params.self_signed(&key).expect("a certificate");
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        Arc::new(certified(vec![certificate.der().clone()], key).expect("they belong together"))
    };
    let keys = [
        key_of(&["a.test", "*.a.test"]),
        key_of(&["b.test", "c.test"]),
    ];
    let names = ServerNames(keys.to_vec());
    for (name, key) in [
        (Some("a.test"), 0),
        (Some("x.a.test"), 0),
        (Some("b.test"), 1),
        (Some("C.TEST"), 1),
        (Some("other.test"), 0),
        (Some("not a name"), 0),
        (None, 0),
    ] {
        let found = names.find(name).expect("a certificate");
        assert!(Arc::ptr_eq(found, &keys[key]), "{name:?}");
    }
}

#[test]
fn a_client_trusts_what_its_file_has_and_asks_for_what_its_client_got() {
    // Breaks when a file without certificates is accepted, or the relay requests a protocol from the server that its
    // client did not get.
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new(["a.test".to_owned()]).expect("a name");
    let made = params.self_signed(&key).expect("a certificate");
    let good = pem(made.der(), "CERTIFICATE");
    let client = |content: &str| {
        let file = PemFile::new("ca", content);
        let name = ServerName::try_from("a.test").expect("a name");
        ClientTls::of(name, Some(&file.0), &[b"h2", b"http/1.1"])
    };
    for wrong in ["", "text", &pem(&key.serialize_der(), "PRIVATE KEY")] {
        let error = client(wrong).map(|_| ()).expect_err("no certificate");
        assert!(error.to_string().contains("mbuma-tls-"), "{error}");
    }
    let client = client(&good).expect("a certificate");
    let asked = |config: Arc<rustls::ClientConfig>| config.alpn_protocols.clone();
    assert_eq!(asked(client.asks_for_all()), [&b"h2"[..], b"http/1.1"]);
    assert_eq!(asked(client.asks_for(Some(b"http/1.1"))), [b"http/1.1"]);
    assert!(asked(client.asks_for(None)).is_empty());
    assert!(client.asks_for_all().enable_secret_extraction);
}

#[test]
fn an_authoritys_own_certificate_is_explained() {
    // Breaks when the user of `openssl req -x509`, whose certificates are an authority's by default, reads the name of
    // a variant in the place of what to do.
    let key = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::new(["a.test".to_owned()]).expect("a name");
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let made = params.self_signed(&key).expect("a certificate");
    let mut roots = rustls::RootCertStore::empty();
    roots.add(made.der().clone()).expect("a certificate");
    let suites = Arc::new(provider::default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), suites).build();
    let verifier = verifier.expect("a root");
    let name = ServerName::try_from("a.test").expect("a name");
    let refused = verifier.verify_server_cert(made.der(), &[], &name, &[], UnixTime::now());
    let refused = HandshakeError::Tls(refused.expect_err("rustls takes it from no server"));
    assert!(reason(&refused).contains("CA:FALSE"), "{refused}");
}

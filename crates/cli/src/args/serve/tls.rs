//! `--tls`: the source of a server's certificate and key.
//!
//! Locks: none.

use std::path::PathBuf;

/// The word for a certificate that is made at the start.
const SELF_SIGNED: &str = "self-signed";

/// The certificate of a server, and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TlsIdentity {
    /// Made at the start, and not stored.
    SelfSigned,
    /// From files: the first one, and those for other names.
    Files(Vec<IdentityFiles>),
}

/// Two files in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IdentityFiles {
    /// The certificate, and the chain from it to one that clients trust.
    pub(crate) certificates: PathBuf,
    pub(crate) key: PathBuf,
}

/// The option.
#[derive(Debug, clap::Args)]
pub(crate) struct TlsOpts {
    /// Speak TLS 1.2 and 1.3, with the certificate chain in the file CERT and its private key in KEY, both in PEM
    ///
    /// May be repeated: a client gets the first certificate for the name that it asks for (SNI), or else the first of
    /// all. With --tls=self-signed, mbuma makes a key and a certificate for the server's address at the start, and
    /// prints the certificate's SHA-256 fingerprint. They end with mbuma.
    #[arg(long = "tls", value_names = ["CERT", "KEY"], num_args = 1..=2)]
    tls: Vec<PathBuf>,
}

impl TlsOpts {
    /// The certificate and key that the user named, if TLS is to be spoken.
    ///
    /// # Errors
    /// One file alone, or a word and a file.
    pub(crate) fn identity(&self) -> Result<Option<TlsIdentity>, String> {
        let is_word = |path: &PathBuf| path.as_os_str() == SELF_SIGNED;
        match &*self.tls {
            [] => Ok(None),
            [word] if is_word(word) => Ok(Some(TlsIdentity::SelfSigned)),
            [word, _] if is_word(word) => {
                Err("--tls self-signed: write --tls=self-signed, in one word".to_owned())
            }
            words if words.iter().any(is_word) => {
                Err("--tls=self-signed can't be combined with another --tls".to_owned())
            }
            paths if paths.len().is_multiple_of(2) => {
                let pair = |pair: &[PathBuf]| {
                    let [certificates, key] = pair else {
                        return None;
                    };
                    Some(IdentityFiles {
                        certificates: certificates.clone(),
                        key: key.clone(),
                    })
                };
                let pairs = paths.chunks_exact(2).filter_map(pair);
                Ok(Some(TlsIdentity::Files(pairs.collect())))
            }
            _ => Err("--tls takes two files, CERT and KEY, or --tls=self-signed".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct TlsLine {
        #[command(flatten)]
        tls: TlsOpts,
        dir: PathBuf,
    }

    fn identity(words: &[&str]) -> Option<Result<Option<TlsIdentity>, String>> {
        let line = TlsLine::try_parse_from([&["serve"], words].concat()).ok()?;
        assert_eq!(line.dir, PathBuf::from("dir"));
        Some(line.tls.identity())
    }

    #[test]
    fn the_forms_of_the_option_are_told_apart() {
        // Breaks when the directory is taken for a key, or a server that was to speak TLS serves without.
        let pair = |certificates: &str, key: &str| IdentityFiles {
            certificates: certificates.into(),
            key: key.into(),
        };
        let files = Some(TlsIdentity::Files(vec![pair("c.pem", "k.pem")]));
        assert_eq!(identity(&["dir"]), Some(Ok(None)));
        assert_eq!(
            identity(&["--tls=self-signed", "dir"]),
            Some(Ok(Some(TlsIdentity::SelfSigned)))
        );
        assert_eq!(
            identity(&["--tls", "c.pem", "k.pem", "dir"]),
            Some(Ok(files.clone()))
        );
        assert_eq!(
            identity(&["dir", "--tls", "c.pem", "k.pem"]),
            Some(Ok(files))
        );
        let two = vec![pair("c.pem", "k.pem"), pair("c2.pem", "k2.pem")];
        let words = [
            "--tls", "c.pem", "k.pem", "--tls", "c2.pem", "k2.pem", "dir",
        ];
        assert_eq!(identity(&words), Some(Ok(Some(TlsIdentity::Files(two)))));
        assert_eq!(identity(&["--tls", "self-signed", "dir"]), None);
        let wrong = [
            &["dir", "--tls", "self-signed", "k.pem"][..],
            &["dir", "--tls", "c.pem"],
            &["--tls=c.pem", "dir"],
            &["--tls=self-signed", "--tls", "c.pem", "k.pem", "dir"],
        ];
        for words in wrong {
            assert!(matches!(identity(words), Some(Err(_))), "{words:?}");
        }
    }
}

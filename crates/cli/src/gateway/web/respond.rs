//! Finds the answer to a request: a page that is made for it, a file, or a directory.
//!
//! A worker looks for files only in memory. Where that is not enough, a thread finds the answer once more, and may wait
//! for a disk ([`FileSearch`]).
//!
//! Invariants: a client gets a status and no error number of the file system. Locks: none.

use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::SystemTime;

use super::SharedFixed;
use crate::files::{
    DirectoryNames, FileCache, FileRound, FoundEntry, NamesRoom, NotInMemory, ServedFile,
    ServedTree,
};
use crate::gateway::figures::{Figures, Gauges};
use crate::gateway::shared::Shared;
use crate::http::coding;
use crate::http::plan::{self, ResponsePlan, Terms};
use crate::http::range::ByteRange;
use crate::http::representation::Representation;
use crate::http::request::{self, HttpRequest};
use crate::http::status::HttpStatus;
use crate::http::target::FilePath;

/// The page, with names in double braces where figures go.
const PAGE: &str = include_str!("../templates/status.html");
/// The file that a directory shows in place of its names, if it is there.
const INDEX: &str = "index.html";
/// The type of metrics for Prometheus.
const METRICS_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The files of a site.
pub(in super::super) struct SiteFiles {
    pub(in super::super) tree: ServedTree,
    /// Those that were requested recently.
    pub(in super::super) cache: FileCache,
    /// The memory for the names of directories.
    pub(in super::super) names_room: NamesRoom,
    /// The path in front of theirs, without a slash at its end.
    pub(in super::super) prefix: &'static str,
    /// Directories without an index show their names.
    pub(in super::super) listing: bool,
}

/// The origin of a response's bytes.
#[derive(Debug)]
pub(super) enum Source {
    /// The plan has them all.
    Plan,
    File(ServedFile),
    /// The names of the directory at this path.
    Names(FilePath, DirectoryNames),
}

impl Source {
    /// Bytes of a file that are kept in a buffer.
    pub(super) fn kept(&self, range: ByteRange) -> Option<&[u8]> {
        match self {
            Source::File(file) => file.kept(range),
            Source::Plan | Source::Names(..) => None,
        }
    }
}

/// A response that can be sent.
pub(super) type Response = (ResponsePlan, Source);

/// The answer to a request.
pub(super) enum RequestAnswer {
    Response(Response),
    /// A thread must find it.
    Search(FileSearch),
}

/// The search for an answer that may wait for a disk.
pub(super) struct FileSearch {
    files: Arc<SiteFiles>,
    /// The round in which the request came.
    round: FileRound,
    /// The number of the file system that is waited for.
    pub(super) device: u64,
}

impl FileSearch {
    /// The response to the request whose head this is.
    pub(super) fn respond(&self, head: &[u8]) -> Response {
        let now = SystemTime::now();
        let request = match request::parse(head) {
            Ok(request) => request,
            Err(status) => return error_now(status),
        };
        let path = self.files.path_of(request.path);
        let found = path.map(|path| {
            let lookup = Lookup::Waiting(self.round);
            self.files.respond(&request, path, now, lookup)
        });
        match found {
            Some(Ok(response)) => response,
            _ => error(HttpStatus::NotFound, &Terms::of(&request, now)),
        }
    }
}

/// The way to look for files, for a request of a round.
#[derive(Clone, Copy)]
enum Lookup {
    /// By a worker.
    InMemory(FileRound),
    /// By a thread that may wait.
    Waiting(FileRound),
}

/// Answers the site's requests.
pub(in super::super) struct Responder {
    fixed: SharedFixed,
    /// The path in front of the status page's, if there is one, without a slash at its end.
    pages: Option<&'static str>,
    files: Option<Arc<SiteFiles>>,
}

impl Responder {
    pub(in super::super) fn new(
        fixed: SharedFixed,
        pages: Option<&'static str>,
        files: Option<SiteFiles>,
    ) -> Responder {
        Responder {
            fixed,
            pages,
            files: files.map(Arc::new),
        }
    }

    /// The directory that is served, if there is one.
    pub(super) fn served(&self) -> Option<&ServedTree> {
        Some(&self.files.as_ref()?.tree)
    }

    /// The answer to a request.
    pub(super) fn respond(
        &self,
        shared: &mut Shared,
        request: &HttpRequest<'_>,
        round: FileRound,
        gauges: Gauges,
    ) -> RequestAnswer {
        let now = round.date;
        let terms = Terms::of(request, now);
        let page = self.page_of(request.path);
        if let (None, Some(files)) = (page, &self.files)
            && let Some(path) = files.path_of(request.path)
        {
            shared.counters.file_requests += 1;
            return match files.respond(request, path, now, Lookup::InMemory(round)) {
                Ok(response) => RequestAnswer::Response(response),
                Err(NotInMemory { device }) => RequestAnswer::Search(FileSearch {
                    files: Arc::clone(files),
                    round,
                    device,
                }),
            };
        }
        shared.counters.status_requests += 1;
        let figures = |shared: &Shared| -> Figures { shared.figures(&self.fixed.get(), gauges) };
        let plan = match page {
            Some(StatusPage::People) => plan::page(
                "text/html; charset=utf-8",
                figures(shared).fill(PAGE),
                &terms,
            ),
            Some(StatusPage::Metrics) => {
                plan::page(METRICS_TYPE, figures(shared).to_prometheus(), &terms)
            }
            None => plan::error(HttpStatus::NotFound, &terms),
        };
        RequestAnswer::Response((plan, Source::Plan))
    }

    /// The page that a path means, if it is one's.
    fn page_of(&self, path: &str) -> Option<StatusPage> {
        match path.strip_prefix(self.pages?)? {
            "/" => Some(StatusPage::People),
            "/metrics" => Some(StatusPage::Metrics),
            _ => None,
        }
    }
}

/// A page that is made of the figures.
#[derive(Clone, Copy, Debug)]
enum StatusPage {
    People,
    Metrics,
}

impl SiteFiles {
    /// The path below the directory, if it is one.
    fn path_of<'a>(&self, path: &'a str) -> Option<&'a str> {
        let rest = path.strip_prefix(self.prefix)?;
        (rest.is_empty() || rest.starts_with('/')).then_some(rest)
    }

    fn respond(
        &self,
        request: &HttpRequest<'_>,
        path: &str,
        now: SystemTime,
        lookup: Lookup,
    ) -> Result<Response, NotInMemory> {
        let terms = Terms::of(request, now);
        let path = match FilePath::parse(path) {
            // The directory itself without its slash.
            Ok(root) if path.is_empty() => return Ok(self.moved(&root, &terms)),
            Ok(path) => path,
            Err(status) => return Ok(error(status, &terms)),
        };
        Ok(match self.find(path.bytes(), lookup)? {
            Ok(FoundEntry::File(file)) if !path.means_directory() => {
                self.file(request, &path, file, now, lookup)?
            }
            Ok(FoundEntry::Directory(_)) if !path.means_directory() => self.moved(&path, &terms),
            Ok(FoundEntry::Directory(directory)) => {
                self.directory(request, path, directory, now, lookup)?
            }
            Ok(FoundEntry::File(_)) => error(HttpStatus::NotFound, &terms),
            Ok(FoundEntry::Other) => error(HttpStatus::Forbidden, &terms),
            Err(e) => error(status_of(&e), &terms),
        })
    }

    fn find(&self, path: &[u8], lookup: Lookup) -> Result<io::Result<FoundEntry>, NotInMemory> {
        match lookup {
            Lookup::InMemory(round) => self.cache.find_in_memory(&self.tree, path, round),
            Lookup::Waiting(round) => Ok(self.cache.find_waiting(&self.tree, path, round)),
        }
    }

    fn moved(&self, path: &FilePath, terms: &Terms) -> Response {
        let url = format!("{}/{}", self.prefix, path.directory_url());
        (plan::moved(&url, terms), Source::Plan)
    }

    /// A file, or the compressed one beside it.
    fn file(
        &self,
        request: &HttpRequest<'_>,
        path: &FilePath,
        file: ServedFile,
        now: SystemTime,
        lookup: Lookup,
    ) -> Result<Response, NotInMemory> {
        let (mut compressed, mut varies) = (None, false);
        let accepted = coding::accepted(&request.accept_encoding);
        let others = coding::ALL.into_iter();
        let others = others.filter(|coding| !accepted.contains(coding));
        let (Lookup::InMemory(round) | Lookup::Waiting(round)) = lookup;
        for coding in accepted.iter().copied().chain(others) {
            if file.is_alone(coding, round) {
                continue;
            }
            let beside = path.with_suffix(coding.suffix());
            match self.find(beside.bytes(), lookup)? {
                // An older one was made from another state of the file.
                Ok(FoundEntry::File(other)) if other.modified() >= file.modified() => {
                    varies = true;
                    compressed = accepted.contains(&coding).then_some((Some(coding), other));
                    break;
                }
                Err(e) if e.kind() == ErrorKind::NotFound => file.note_alone(coding, round),
                Ok(_) | Err(_) => {}
            }
        }
        let (coding, file) = compressed.unwrap_or((None, file));
        let shown = |coding| Representation::of(path, file.len(), file.modified(), coding);
        let plan = match coding {
            None => plan::file(request, file.shown_as(|| shown(None)), varies, now),
            coding => plan::file(request, &shown(coding), varies, now),
        };
        Ok((plan, Source::File(file)))
    }

    /// The index of a directory, or its names.
    fn directory(
        &self,
        request: &HttpRequest<'_>,
        path: FilePath,
        directory: OwnedFd,
        now: SystemTime,
        lookup: Lookup,
    ) -> Result<Response, NotInMemory> {
        let terms = Terms::of(request, now);
        let index = path.child(INDEX);
        match self.find(index.bytes(), lookup)? {
            Ok(FoundEntry::File(file)) => return self.file(request, &index, file, now, lookup),
            Err(e) if e.kind() != ErrorKind::NotFound => return Ok(error(status_of(&e), &terms)),
            Ok(_) | Err(_) if !self.listing => return Ok(error(HttpStatus::Forbidden, &terms)),
            Ok(_) | Err(_) => {}
        }
        if matches!(lookup, Lookup::InMemory(_)) {
            let device = self.tree.device();
            return Err(NotInMemory { device });
        }
        Ok(match DirectoryNames::of(directory, &self.names_room) {
            Ok(names) => (plan::listing(&terms), Source::Names(path, names)),
            Err(e) => error(status_of(&e), &terms),
        })
    }
}

/// An answer in a few words to a request that does not choose its terms.
pub(super) fn error_now(status: HttpStatus) -> Response {
    error(status, &Terms::of_none(SystemTime::now()))
}

/// An answer in a few words.
fn error(status: HttpStatus, terms: &Terms) -> Response {
    (plan::error(status, terms), Source::Plan)
}

/// The status that tells a client of an error.
fn status_of(e: &io::Error) -> HttpStatus {
    match e.raw_os_error() {
        // Out of the directory: the answer is that there is no such file.
        Some(libc::ENOENT | libc::ENOTDIR | libc::ENAMETOOLONG | libc::ELOOP | libc::EXDEV) => {
            HttpStatus::NotFound
        }
        // A socket, or a device without a driver.
        Some(libc::EACCES | libc::EPERM | libc::ENXIO | libc::ENODEV) => HttpStatus::Forbidden,
        Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM | libc::EAGAIN) => {
            HttpStatus::ServiceUnavailable
        }
        _ => HttpStatus::InternalServerError,
    }
}

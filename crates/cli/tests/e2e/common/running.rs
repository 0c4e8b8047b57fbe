//! A program that runs beside the test, and ends with it at the latest.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::PATIENCE;

/// A program, in a process group of its own.
pub(crate) struct Running {
    child: Child,
    stdin: Option<ChildStdin>,
    out: Arc<Output>,
    err: Arc<Output>,
    line: String,
    patience: Duration,
    reaped: bool,
}

/// How a program ended.
#[derive(Debug)]
pub(crate) struct Ended {
    /// Its command line.
    #[allow(dead_code)] // messages show it
    pub(crate) line: String,
    /// Its exit code, unless a signal ended it.
    pub(crate) code: Option<i32>,
    /// The signal that ended it.
    pub(crate) signal: Option<i32>,
    /// What it printed.
    pub(crate) out: String,
    /// Its standard error.
    pub(crate) err: String,
}

impl Ended {
    /// Its output. Panics unless it succeeded and its standard error is empty.
    pub(crate) fn good(self) -> String {
        assert!(self.code == Some(0) && self.err.is_empty(), "{self:#?}");
        self.out
    }
}

impl Running {
    /// Starts it.
    pub(crate) fn start(mut command: Command) -> Running {
        let line = format!("{command:?}");
        command
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|e| panic!("{line}: {e}"));
        Running {
            stdin: child.stdin.take(),
            out: Output::collect(child.stdout.take().expect("a pipe was asked for")),
            err: Output::collect(child.stderr.take().expect("a pipe was asked for")),
            child,
            line,
            patience: PATIENCE,
            reaped: false,
        }
    }

    /// Permits it to take longer than other programs.
    pub(crate) fn with_patience(mut self, patience: Duration) -> Running {
        self.patience = patience;
        self
    }

    /// Its process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// The process id of the process that serves the guest, if this is an mbuma.
    pub(crate) fn gateway(&self) -> u32 {
        let list = format!("/proc/{0}/task/{0}/children", self.id());
        let children = || fs::read_to_string(&list).unwrap_or_default();
        let is_gateway = |pid: &&str| {
            let name = fs::read_to_string(format!("/proc/{pid}/comm"));
            name.is_ok_and(|name| name == "mbuma-gateway\n")
        };
        let begun = Instant::now();
        loop {
            let children = children();
            if let Some(pid) = children.split_whitespace().find(is_gateway) {
                return super::number(pid) as u32;
            }
            assert!(
                begun.elapsed() < PATIENCE,
                "{} has no gateway process",
                self.line
            );
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Writes a line to its standard input.
    pub(crate) fn say(&mut self, line: &str) {
        self.press(&format!("{line}\n"));
    }

    /// Writes these keys to its standard input.
    pub(crate) fn press(&mut self, keys: &str) {
        let stdin = self.stdin.as_mut().expect("its input is open");
        let written = stdin.write_all(keys.as_bytes());
        written.unwrap_or_else(|e| panic!("{}: {e}", self.line));
    }

    /// Waits until its standard error has these words.
    pub(crate) fn wait_for_complaint(&self, words: &str) {
        let found = self.err.wait(|text, _| text.contains(words).then_some(()));
        found.unwrap_or_else(|| panic!("{} never said {words:?}: {}", self.line, self.err.text()));
    }

    /// Its standard error so far.
    pub(crate) fn complaints(&self) -> String {
        self.err.text()
    }

    /// What it has printed so far.
    pub(crate) fn output(&self) -> String {
        self.out.text()
    }

    /// Waits until it has printed a line that begins with `word`, and gives the rest of that line.
    pub(crate) fn wait_for(&self, word: &str) -> String {
        let found = self.out.wait(|text, _| {
            let lines = text.split_inclusive('\n').filter(|l| l.ends_with('\n'));
            let mut rests = lines.filter_map(|l| l.strip_prefix(word));
            rests.next().map(|rest| rest.trim().to_owned())
        });
        found.unwrap_or_else(|| {
            panic!(
                "{} never said {word:?}\nout: {}\nerr: {}",
                self.line,
                self.out.text(),
                self.err.text()
            )
        })
    }

    /// Waits until it has closed its output, and returns the output.
    pub(crate) fn wait_for_end_of_output(&self) -> String {
        self.out.whole(&self.line)
    }

    /// Sends it, and not its group, a signal by name.
    pub(crate) fn signal(&self, name: &str) {
        super::kill(name, &self.id().to_string());
    }

    /// Sends the process that serves the guest a signal, by name.
    pub(crate) fn signal_gateway(&self, name: &str) {
        super::kill(name, &self.gateway().to_string());
    }

    /// Whether it has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.try_wait().is_some()
    }

    fn try_wait(&mut self) -> Option<ExitStatus> {
        let status = self.child.try_wait().expect("a child can be waited for");
        self.reaped |= status.is_some();
        status
    }

    /// Closes its input, waits for its end and that of its output, and gives both.
    pub(crate) fn finish(mut self) -> Ended {
        self.stdin = None;
        let begun = Instant::now();
        let status = loop {
            if let Some(status) = self.try_wait() {
                break status;
            }
            let (out, err) = (&self.out, &self.err);
            assert!(
                begun.elapsed() < self.patience,
                "{} is still running\nout: {}\nerr: {}",
                self.line,
                out.text(),
                err.text()
            );
            thread::sleep(Duration::from_millis(2));
        };
        Ended {
            line: self.line.clone(),
            code: status.code(),
            signal: status.signal(),
            out: self.out.whole(&self.line),
            err: self.err.whole(&self.line),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Its children outlive it only in a test that fails. Once it is reaped and they are gone, another group may
        // have the number: then no signal may be sent.
        if self.reaped && !thread::panicking() {
            return;
        }
        let group = format!("kill -s KILL -- -{} 2>/dev/null", self.child.id());
        let _ = Command::new("sh").args(["-c", &group]).status();
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a program has written to one of its outputs so far.
struct Output {
    text: Mutex<(Vec<u8>, bool)>,
    news: Condvar,
}

impl Output {
    /// Reads `pipe` to its end, aside.
    fn collect(mut pipe: impl Read + Send + 'static) -> Arc<Output> {
        let output = Arc::new(Output {
            text: Mutex::new((Vec::new(), false)),
            news: Condvar::new(),
        });
        let writer = Arc::clone(&output);
        thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(n @ 1..) = pipe.read(&mut piece) {
                writer.lock().0.extend_from_slice(&piece[..n]);
                writer.news.notify_all();
            }
            writer.lock().1 = true;
            writer.news.notify_all();
        });
        output
    }

    fn lock(&self) -> MutexGuard<'_, (Vec<u8>, bool)> {
        self.text.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.lock().0).into_owned()
    }

    /// Waits until `found` returns a value for the text; its second argument says whether more text may come.
    fn wait<T>(&self, found: impl Fn(&str, bool) -> Option<T>) -> Option<T> {
        let begun = Instant::now();
        let mut guard = self.lock();
        loop {
            if let Some(it) = found(&String::from_utf8_lossy(&guard.0), guard.1) {
                return Some(it);
            }
            if guard.1 || begun.elapsed() > PATIENCE {
                return None;
            }
            let waited = self.news.wait_timeout(guard, Duration::from_millis(200));
            guard = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// All of it, once the last writer has closed it.
    fn whole(&self, line: &str) -> String {
        self.wait(|text, closed| closed.then(|| text.to_owned()))
            .unwrap_or_else(|| panic!("{line}: a process holds its output open"))
    }
}

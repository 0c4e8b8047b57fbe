//! The kernel's TCP, over its loopback or between two namespaces with a veth pair between: the same loops over system
//! calls.
//!
//! Two threads use calls that wait, as programs with a thread for a socket do; one thread cannot, and asks again.

use super::case::Job;
use super::flow::{CHUNK, End};
use crate::harness::namespace::ip;
use crate::harness::sys;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddrV4, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;

/// One end.
pub(crate) struct KernelEnd {
    mine: Arc<TcpStream>,
    other: Arc<TcpStream>,
}

/// Two ends that are connected over the loopback.
pub(crate) fn loopback(job: Job) -> io::Result<[KernelEnd; 2]> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let client = TcpStream::connect(listener.local_addr()?)?;
    ends(client, listener.accept()?.0, job)
}

/// Two ends that are connected over a veth pair, from this network namespace, which no other process may use, to a
/// new one.
pub(crate) fn veth(job: Job) -> io::Result<[KernelEnd; 2]> {
    let (tell, told) = mpsc::channel();
    let (begin, may_begin) = mpsc::channel();
    let server = thread::spawn(move || -> io::Result<TcpStream> {
        sys::new_network()?;
        let _ = tell.send(sys::thread_id());
        // The other side closes without an error when a call failed there.
        may_begin.recv().map_err(io::Error::other)?;
        interface("veth1", SERVER)?;
        let listener = TcpListener::bind(SocketAddrV4::new(SERVER, PORT))?;
        let _ = tell.send(0);
        Ok(listener.accept()?.0)
    });
    let mtu = job.mtu;
    if let Ok(thread) = told.recv() {
        ip(&format!(
            "link add veth0 mtu {mtu} type veth peer name veth1 mtu {mtu} netns {thread}"
        ))?;
        interface("veth0", CLIENT)?;
        let _ = begin.send(());
    }
    // A thread that failed has reported its error itself.
    let client = match told.recv() {
        Ok(_) => Some(TcpStream::connect((SERVER, PORT))?),
        Err(_) => None,
    };
    let server = server
        .join()
        .unwrap_or_else(|_| Err(io::Error::other("panicked")))?;
    let client = client.ok_or(io::ErrorKind::NotConnected)?;
    ends(client, server, job)
}

/// Gives an interface its address and brings it up.
fn interface(name: &str, addr: Ipv4Addr) -> io::Result<()> {
    ip(&format!("addr add {addr}/24 dev {name}"))?;
    ip(&format!("link set {name} up"))
}

fn ends(client: TcpStream, server: TcpStream, job: Job) -> io::Result<[KernelEnd; 2]> {
    for stream in [&client, &server] {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(!job.two)?;
    }
    let (client, server) = (Arc::new(client), Arc::new(server));
    let end = |mine: &Arc<TcpStream>, other: &Arc<TcpStream>| KernelEnd {
        mine: Arc::clone(mine),
        other: Arc::clone(other),
    };
    Ok([end(&client, &server), end(&server, &client)])
}

impl End for KernelEnd {
    // A call that fails, interrupted or full, takes no bytes.
    fn send(&mut self, bytes: &[u8]) -> usize {
        (&*self.mine).write(bytes).unwrap_or(0)
    }

    fn recv(&mut self, buf: &mut [u8]) -> usize {
        let most = buf.len().min(CHUNK);
        (&*self.mine).read(&mut buf[..most]).unwrap_or(0)
    }

    fn hang_up(&mut self) {
        for stream in [&self.mine, &self.other] {
            // A closed socket needs no shutdown.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

const CLIENT: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const SERVER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
const PORT: u16 = 5201;

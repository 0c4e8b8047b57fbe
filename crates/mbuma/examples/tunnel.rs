//! Two stacks, each with a tunnel for its only way out, joined by channels that carry IP packets.
//!
//! `cargo run -p mbuma --example tunnel`

use std::error::Error;
use std::io::{Read, Write};
use std::sync::{Arc, mpsc};
use std::thread;

use mbuma::device::tunnel::{self, TunnelEnd};
use mbuma::{Runtime, Stack};

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let runtime = Runtime::new()?;
    let (here, here_end) = stack(&runtime, "192.0.2.1/24")?;
    let (there, there_end) = stack(&runtime, "192.0.2.2/24")?;
    carry(&here_end, &there_end);
    carry(&there_end, &here_end);

    let listener = there.tcp_listen("192.0.2.2:80", 128)?;
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut reader, mut writer) = stream?.split();
            std::io::copy(&mut reader, &mut writer)?;
        }
        Ok::<(), std::io::Error>(())
    });
    let (mut reader, mut writer) = here.tcp_connect_blocking("192.0.2.2:80", None)?.split();
    let sent = vec![7; 1 << 20];
    let sender = thread::spawn({
        let sent = sent.clone();
        // The end of the writer is the end of what the other side reads.
        move || writer.write_all(&sent)
    });
    let mut got = Vec::new();
    reader.read_to_end(&mut got)?;
    sender.join().map_err(|_| "the sender has panicked")??;
    println!("{} bytes there and back", got.len());
    match got == sent {
        true => Ok(()),
        false => Err("other bytes came back".into()),
    }
}

/// A stack with a tunnel of WireGuard's usual MTU.
fn stack(runtime: &Runtime, addr: &str) -> Result<(Stack, Arc<TunnelEnd>), Box<dyn Error>> {
    let stack = runtime.stack().build()?;
    let (device, end) = tunnel::pair(stack.pool(), 1420)?;
    stack.add_interface(device).addr(addr.parse()?).up()?;
    Ok((stack, Arc::new(end)))
}

/// Carries what leaves by `from` to `to`: one thread takes, another gives. Both end with the stacks.
fn carry(from: &Arc<TunnelEnd>, to: &Arc<TunnelEnd>) {
    let (sender, receiver) = mpsc::sync_channel::<Vec<u8>>(64);
    let (from, to) = (Arc::clone(from), Arc::clone(to));
    thread::spawn(move || {
        while let Ok(packet) = from.take_blocking(None) {
            if sender.send(packet.to_vec()).is_err() {
                break;
            }
        }
    });
    thread::spawn(move || {
        receiver
            .iter()
            .try_for_each(|packet| to.give(&packet).map(|_| ()))
    });
}

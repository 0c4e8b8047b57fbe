//! An echo server (RFC 862) on a TAP device.
//!
//! ```sh
//! unshare --user --map-root-user --net sh -c '
//!   ip tuntap add dev tap0 mode tap && ip addr add 192.0.2.1/24 dev tap0 && ip link set tap0 up
//!   cargo run -p mbuma --example echo & sleep 1
//!   echo hello | nc -N 192.0.2.2 7; kill $!'
//! ```

use mbuma::{Runtime, Tap};

pub(crate) fn main() -> mbuma::Result<()> {
    let runtime = Runtime::new()?;
    let stack = runtime.stack().build()?;
    let tap = stack.add_interface(Tap::open("tap0")?);
    tap.addr("192.0.2.2/24".parse()?)
        .default_route([192, 0, 2, 1].into())
        .up()?;
    for stream in stack.tcp_listen("192.0.2.2:7", 128)?.incoming() {
        let (mut reader, mut writer) = stream?.split();
        std::thread::spawn(move || std::io::copy(&mut reader, &mut writer));
    }
    Ok(())
}

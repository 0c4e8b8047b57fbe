//! TLS connections in the shape of std's `Read` and `Write`: each call blocks the calling thread without a time limit, so
//! another thread must drive the stack.

use std::io::{self, Read, Write};

use super::TlsStream;

impl Read for &TlsStream {
    /// Waits for data and copies it to `buf`; 0 is the peer's close_notify. A truncated stream is `UnexpectedEof`.
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if buf.is_empty() {
            return Ok(0);
        }
        Ok(self.recv_blocking(buf, None)?)
    }
}

impl Write for &TlsStream {
    /// Waits for room and puts all of `buf` into the send buffer.
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        Ok(self.send_blocking(buf, None)?)
    }

    /// Does nothing: the stack sends the content of the send buffer by itself.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for TlsStream {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        (&*self).read(buf)
    }
}

impl Write for TlsStream {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        (&*self).write(buf)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

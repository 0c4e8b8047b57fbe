//! A chain as a source of bytes that are consumed: a read removes them from its front.

use std::io::{self, BufRead, IoSlice, Read};

use bytes::{Buf, Bytes};

use super::Chain;

impl Buf for Chain {
    fn remaining(&self) -> usize {
        self.len()
    }

    fn chunk(&self) -> &[u8] {
        self.segments().next().unwrap_or_default()
    }

    fn advance(&mut self, n: usize) {
        assert!(n <= self.len(), "there are fewer bytes");
        self.trim_front(n);
    }

    fn chunks_vectored<'s>(&'s self, out: &mut [IoSlice<'s>]) -> usize {
        let filled = out.iter_mut().zip(self.segments());
        filled
            .map(|(place, piece)| *place = IoSlice::new(piece))
            .count()
    }

    /// Copies only if the bytes would pin much more memory than they fill, as [`Bytes::from`] a chain does.
    fn copy_to_bytes(&mut self, n: usize) -> Bytes {
        assert!(n <= self.len(), "there are fewer bytes");
        match self.take_front(n) {
            Ok(front) => Bytes::from(front),
            Err(_) => {
                let mut bytes = vec![0; n];
                self.copy_to(0, &mut bytes);
                self.trim_front(n);
                Bytes::from(bytes)
            }
        }
    }
}

impl Read for Chain {
    fn read(&mut self, dst: &mut [u8]) -> io::Result<usize> {
        let n = dst.len().min(self.len());
        self.copy_to(0, &mut dst[..n]);
        self.trim_front(n);
        Ok(n)
    }
}

impl BufRead for Chain {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        Ok(Buf::chunk(&*self))
    }

    fn consume(&mut self, n: usize) {
        self.advance(n);
    }
}

//! `Arc<[u8]>` in a header of 256 bytes from a zone of ours: an mbuf's work for a share, with the count of the
//! standard library and the memory of the system's malloc behind it.

use crate::refs::design::{Absent, Design, Live, Shape, out_of_memory};
use std::array;
use std::sync::Arc;
use uma::{Zone, ZoneBox};

/// Headers that hold `Arc`s.
pub(crate) struct ArcBoxed<const CLUSTERS: usize> {
    headers: Zone<Header>,
    cluster: usize,
}

/// An mbuf's fields, and its reference.
#[repr(C, align(256))]
pub(crate) struct Header {
    next: usize,
    next_packet: usize,
    len: u32,
    kind: u16,
    flags: u16,
    bytes: Arc<[u8]>,
}

const _: () = assert!(size_of::<Header>() == 256);

impl<const CLUSTERS: usize> ArcBoxed<CLUSTERS> {
    #[inline]
    fn header(&self, bytes: Arc<[u8]>) -> ZoneBox<Header> {
        let made = self.headers.alloc(Header {
            next: 0,
            next_packet: 0,
            len: bytes.len() as u32,
            kind: 1,
            flags: 1,
            bytes,
        });
        match made {
            Ok(header) => header,
            Err(_) => out_of_memory("arc-boxed"),
        }
    }
}

impl<const CLUSTERS: usize> Design for ArcBoxed<CLUSTERS> {
    type View = [ZoneBox<Header>; CLUSTERS];

    fn new(shape: Shape) -> Result<Self, Absent> {
        assert_eq!(shape.clusters, CLUSTERS);
        Ok(Self {
            headers: Zone::new("lab_mbuf").map_err(|e| Absent(e.to_string()))?,
            cluster: shape.cluster,
        })
    }

    #[inline]
    fn fresh(&self, from: &[u8]) -> Self::View {
        let mut pieces = from.chunks(self.cluster);
        array::from_fn(|_| self.header(Arc::from(pieces.next().unwrap_or_default())))
    }

    #[inline]
    unsafe fn share(&self, view: &mut Self::View) -> Self::View {
        view.each_ref()
            .map(|header| self.header(header.bytes.clone()))
    }

    #[inline]
    unsafe fn release(&self, view: Self::View) {
        drop(view);
    }

    #[inline]
    fn pieces(view: &Self::View) -> impl Iterator<Item = &[u8]> {
        view.iter().map(|header| &*header.bytes)
    }

    fn live(&self) -> Live {
        Live {
            mbufs: Some(self.headers.raw().live()),
            ..Live::default()
        }
    }
}

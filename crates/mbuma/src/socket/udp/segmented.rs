//! Several datagrams between two ends in one call, which travel as one packet until a device has to cut it.
//!
//! Locks: none held over a call. Source: Linux's UDP_SEGMENT and UDP_GRO (udp(7)).

use std::sync::atomic::Ordering;

use super::{IntoEndpoint, IntoPayload, SendError, UdpSocket};
use crate::{DropReason, udp};

/// Datagrams of one call at most, as on Linux.
#[doc(alias = "UDP_MAX_SEGMENTS")]
const SEGMENTS_MAX: usize = 128;

impl UdpSocket {
    /// Sends the payload to a host as datagrams of `segment_size` bytes, of which the last one may be shorter. As QUIC
    /// needs it: all of them pass the stack as one packet of up to 64 KiB, which the device cuts if it can. They are
    /// not fragmented, not by routers either.
    ///
    /// ```
    /// use mbuma::{Config, Stack};
    ///
    /// let stack = Stack::new(Config::from_system())?;
    /// let (sender, receiver) = (stack.udp_bind("127.0.0.1:0")?, stack.udp_bind("127.0.0.1:4433")?);
    /// sender.send_segmented(&[7; 2500], 1200, "127.0.0.1:4433")?;
    /// stack.poll();
    /// let lens = std::iter::from_fn(|| receiver.recv().ok()).map(|datagram| datagram.payload.len());
    /// assert!(lens.eq([1200, 1200, 100]));
    ///
    /// receiver.set_recv_segmented(true);
    /// sender.send_segmented(&[7; 2500], 1200, "127.0.0.1:4433")?;
    /// stack.poll();
    /// let datagrams = receiver.recv()?;
    /// assert_eq!((datagrams.payload.len(), datagrams.segment_size), (2500, 1200));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`send_to`](Self::send_to). [`SendError::TooBig`] also for a segment size of 0 or of more bytes than
    /// the link, or the path as far as is known, carries whole, and for more than 128 datagrams;
    /// [`SendError::BadDestination`] also for groups and 255.255.255.255.
    #[doc(alias = "UDP_SEGMENT")]
    #[doc(alias = "GSO")]
    pub fn send_segmented(
        &self,
        payload: impl IntoPayload,
        segment_size: usize,
        dst: impl IntoEndpoint,
    ) -> Result<(), SendError> {
        let dst = dst.into_endpoint().map_err(|_| SendError::BadDestination)?;
        let payload = payload.into_payload(self.0.stack.pool())?;
        let src = self.source_to(dst).ok_or(SendError::NoRoute)?;
        let ends = self.checked(&payload, src, dst)?;
        if udp::output::is_for_many(dst.ip()) {
            return Err(SendError::BadDestination);
        }
        let segsz = u16::try_from(segment_size).map_err(|_| SendError::TooBig)?;
        if segsz == 0 || payload.len() > SEGMENTS_MAX * segment_size {
            return Err(SendError::TooBig);
        }
        let (stack, pcb) = (&self.0.stack.0, &self.0.pcb);
        stack.enter(|batch| {
            let whole_max = udp::output::whole_max(batch, pcb, &ends).ok_or(SendError::NoRoute)?;
            if segment_size > whole_max {
                return Err(SendError::TooBig);
            }
            udp::output::run_merged(batch, pcb, payload, &ends, segsz).map_err(SendError::from)
        })
    }

    /// The same from a source of the caller's, as [`send_from`](Self::send_from), for a gateway that passes on what it
    /// received together. Datagrams that the link does not carry whole go one by one, and so do more than 128, and
    /// those to groups.
    ///
    /// # Errors
    /// As [`send_from`](Self::send_from). [`SendError::TooBig`] also for a segment size of 0 or of more than 65,535.
    pub fn send_train(
        &self,
        payload: impl IntoPayload,
        segment_size: usize,
        src: impl IntoEndpoint,
        dst: impl IntoEndpoint,
    ) -> Result<(), SendError> {
        let src = src.into_endpoint().map_err(|_| SendError::BadSource)?;
        let dst = dst.into_endpoint().map_err(|_| SendError::BadDestination)?;
        let mut payload = payload.into_payload(self.0.stack.pool())?;
        let ends = self.checked(&payload, src, dst)?;
        let (stack, pcb, link) = (&self.0.stack.0, &self.0.pcb, self.link_to(dst));
        let segsz = u16::try_from(segment_size).map_err(|_| SendError::TooBig)?;
        let each = usize::from(segsz);
        if each == 0 {
            return Err(SendError::TooBig);
        }
        let sent = stack.enter(|batch| {
            let fits = |most| each <= most && payload.len() <= SEGMENTS_MAX * each;
            let is_train = payload.len() > each && !udp::output::is_for_many(dst.ip());
            if is_train && udp::output::whole_max(batch, pcb, &ends).is_some_and(fits) {
                return udp::output::run_merged(batch, pcb, payload, &ends, segsz);
            }
            while payload.len() > each {
                let first = payload.take_front(each).map_err(|_| DropReason::TxNoBufs)?;
                udp::output::run(batch, pcb, first, &ends, link)?;
            }
            udp::output::run(batch, pcb, payload, &ends, link)
        });
        sent.map_err(SendError::from)
    }

    /// Whether datagrams that a device, or a sender on a link in memory, handed over as one packet are received as one
    /// [`Datagram`](super::Datagram), whose `segment_size` tells where each begins. At first they are not. A socket
    /// that asks must use [`recv`](Self::recv) or its other forms: [`recv_from`](Self::recv_from) can't tell.
    #[doc(alias = "UDP_GRO")]
    pub fn set_recv_segmented(&self, on: bool) {
        self.0.pcb.takes_merged.store(on, Ordering::Relaxed);
    }
}

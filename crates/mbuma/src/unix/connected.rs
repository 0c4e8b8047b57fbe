//! The methods that streams and sequenced packets share: all but those that send bytes or chains.
//!
//! Locks: none.

/// The methods of a socket type that has a [`Handle`](super::pcb::Handle) of a connection.
macro_rules! connected {
    ($Socket:ident, $Role:ident) => {
        impl $Socket {
            fn connection(&self) -> &UnixConnection {
                match &self.0.pcb().role {
                    Role::$Role(connection) => connection,
                    _ => unreachable!("it is made of nothing else"),
                }
            }

            fn unix(&self) -> &UnixState {
                &self.0.pcb().unix
            }

            fn copy_out(&self, buf: &mut [u8], wait: Wait) -> Result<usize, UnixError> {
                let received = self.connection().recv(self.unix(), buf.len(), wait)?;
                let data = received.unwrap_or_default().data;
                data.copy_to(0, &mut buf[..data.len()]);
                Ok(data.len())
            }

            /// Moves a message and its rights to the peer: a record, or bytes of a stream, which the peer receives
            /// separately from those before and after them if they have rights.
            ///
            /// # Errors
            /// The message comes back with `WouldBlock`, `BrokenPipe`, `TooManyRights` or `OtherStack`; on a stream
            /// with `NoData` if it has rights and no bytes; otherwise with `Reset` (once) or `TooBig`.
            #[doc(alias = "sendmsg")]
            pub fn send_with(&self, message: Message) -> Result<(), (UnixError, Message)> {
                self.give(message, Wait::No)
            }

            /// As [`send_with`](Self::send_with), waiting for room.
            ///
            /// # Errors
            /// As there; the message comes back with `TimedOut` when the time is over.
            pub fn send_with_blocking(
                &self,
                message: Message,
                timeout: Option<Duration>,
            ) -> Result<(), (UnixError, Message)> {
                self.give(message, Wait::Yes(timeout))
            }

            /// Copies received bytes of a stream, or the next record as far as it fits, to `buf`; the rest of a record
            /// is lost. 0 is the end, or an empty record: [`recv_with`](Self::recv_with) distinguishes them. Their
            /// rights are dropped.
            ///
            /// # Errors
            /// `WouldBlock` if nothing is there yet; `Reset`, once, before the records that wait; `NoBufs`.
            pub fn recv(&self, buf: &mut [u8]) -> Result<usize, UnixError> {
                self.copy_out(buf, Wait::No)
            }

            /// Takes up to `max` received bytes of a stream, or the next record, cut to `max` bytes, with their rights;
            /// `None` at the end.
            ///
            /// # Errors
            /// `WouldBlock` if nothing is there yet; `Reset`, once, before the records that wait; `NoBufs`.
            #[doc(alias = "recvmsg")]
            pub fn recv_with(&self, max: usize) -> Result<Option<ReceivedMessage>, UnixError> {
                self.connection().recv(self.unix(), max, Wait::No)
            }

            /// As [`recv`](Self::recv), waiting for something to come.
            ///
            /// # Errors
            /// As there; `TimedOut` when the time is over.
            pub fn recv_blocking(
                &self,
                buf: &mut [u8],
                timeout: Option<Duration>,
            ) -> Result<usize, UnixError> {
                self.copy_out(buf, Wait::Yes(timeout))
            }

            /// As [`recv_with`](Self::recv_with), waiting for something to come.
            ///
            /// # Errors
            /// As there; `TimedOut` when the time is over.
            pub fn recv_with_blocking(
                &self,
                max: usize,
                timeout: Option<Duration>,
            ) -> Result<Option<ReceivedMessage>, UnixError> {
                let wait = Wait::Yes(timeout);
                self.connection().recv(self.unix(), max, wait)
            }

            /// Ready when a receive returns data, the end, or an error; the task is woken then.
            pub fn poll_readable(&self, cx: &Context<'_>) -> Poll<()> {
                self.connection().poll_readable(cx)
            }

            /// Ready when a send succeeds or fails for good. The task is woken when half of the peer's buffer is free.
            pub fn poll_writable(&self, cx: &Context<'_>) -> Poll<()> {
                self.connection().poll_writable(cx)
            }

            /// Sets the waker for data that arrives at an empty buffer, for room when half of the peer's buffer is
            /// free again, and for the end of a direction. It is called at once if there is data now. It stays until
            /// replaced.
            pub fn set_waker(&self, waker: Option<Waker>) {
                self.connection().set_waker(waker);
            }

            /// Ends a direction, or both. The peer reads the data sent so far, then the end; it can't send where
            /// this side reads no more.
            pub fn shutdown(&self, how: Shutdown) {
                self.connection().shutdown(how);
            }

            /// Its name: that of the listener that accepted it.
            #[doc(alias = "getsockname")]
            pub fn local_name(&self) -> Option<&Name> {
                self.connection().local.as_ref()
            }

            /// The peer's name: that of the listener, if this side connected to it.
            #[doc(alias = "getpeername")]
            pub fn peer_name(&self) -> Option<&Name> {
                self.connection().peer.as_ref()
            }

            /// The peer's credentials when it connected, or when it began to listen.
            #[doc(alias = "LOCAL_PEERCRED")]
            #[doc(alias = "SO_PEERCRED")]
            pub fn peer_credentials(&self) -> Credentials {
                self.connection().peer_credentials
            }
        }

        kern::impl_debug!($Socket |this|
            id: this.0.pcb().id, local: this.local_name(), peer: this.peer_name(),
        );
    };
}

pub(super) use connected;

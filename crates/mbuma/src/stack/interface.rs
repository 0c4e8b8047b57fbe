//! Interfaces, set up in one expression, of a stack that a runtime drives.
//!
//! Locks: none.

use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use wire::MacAddr;

use crate::device::Device;
use crate::device::tap::{OpenTap, Tap};
use crate::error::Error;
use crate::ifnet::{IfAddr, IfConfig, IfIndex};
use crate::route::RouteKind;
use crate::stack::Stack;
use crate::stack::driver::Driver;

/// An interface to come: [`InterfaceBuilder::up`] makes it.
#[derive(Debug)]
#[must_use = "`up` makes the interface"]
pub struct InterfaceBuilder<'s> {
    stack: &'s Stack,
    tap: OpenTap,
    config: IfConfig,
    gateway: Option<Ipv4Addr>,
}

impl Stack {
    /// Begins an interface on an open TAP. The runtime that made the stack takes in what it receives.
    pub fn add_interface(&self, tap: OpenTap) -> InterfaceBuilder<'_> {
        InterfaceBuilder {
            stack: self,
            config: IfConfig::new(&tap.name),
            tap,
            gateway: None,
        }
    }
}

impl InterfaceBuilder<'_> {
    /// Gives it an address, with the length of its network's prefix. Several are possible.
    pub fn addr(mut self, addr: IfAddr) -> Self {
        self.config.addrs.push(addr);
        self
    }

    /// Gives it an Ethernet address; else one is drawn at random.
    pub fn mac(mut self, mac: MacAddr) -> Self {
        self.config.mac = Some(mac);
        self
    }

    /// Lets it answer for every address, as a gateway does that ends connections itself.
    pub fn accept_any(mut self) -> Self {
        self.config.accept_any = true;
        self
    }

    /// Sends what is for no network of the stack's to this router.
    pub fn default_route(mut self, gateway: Ipv4Addr) -> Self {
        self.gateway = Some(gateway);
        self
    }

    /// Makes the interface, and begins to take in what it receives.
    ///
    /// # Errors
    /// [`Error::NoRuntime`]; [`Error::Gateway`]; a descriptor can't be watched. Then there is no interface.
    pub fn up(self) -> Result<IfIndex, Error> {
        let driver = self.stack.driver().ok_or(Error::NoRuntime)?;
        if let Some(gateway) = self.gateway
            && !self.config.addrs.iter().any(|net| net.contains(gateway))
        {
            return Err(Error::Gateway(gateway));
        }
        let (stack, options) = (self.stack, self.tap.options);
        let watched = self.tap.queues.iter().map(OwnedFd::try_clone);
        let watched = watched.collect::<std::io::Result<Vec<_>>>()?;
        let queues = self.tap.queues.into_iter();
        let taps = queues.map(|fd| Tap::from_fd(fd, options, stack.pool()));
        let taps = taps.map(|tap| Arc::new(tap) as Arc<dyn Device>);
        let index = stack.attach_queues(taps.collect(), self.config);
        let up = finish(stack, &*driver, index, watched, self.gateway);
        if up.is_err() {
            driver.forget(stack, index);
            stack.detach(index);
        }
        up.map(|()| index)
    }
}

fn finish(
    stack: &Stack,
    driver: &dyn Driver,
    index: IfIndex,
    watched: Vec<OwnedFd>,
    gateway: Option<Ipv4Addr>,
) -> Result<(), Error> {
    if let Some(gateway) = gateway {
        let all = IfAddr {
            addr: Ipv4Addr::UNSPECIFIED,
            prefix_len: 0,
        };
        let added = stack.add_route(all, RouteKind::Gateway(index, gateway));
        added.map_err(|_| Error::Gateway(gateway))?;
    }
    for (queue, fd) in watched.into_iter().enumerate() {
        driver.watch(stack, stack.rx_queue(index, queue)?, fd)?;
    }
    Ok(())
}

//! The events of a net, and the names of their targets.

use crate::frame::Frame;

/// Names a stack of a net.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct NodeId(pub(crate) usize);

/// Names a wire of a net.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct WireId(pub(crate) usize);

/// Names a peer that is driven by hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PeerId(pub(crate) usize);

/// Names an epair of a net.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CableId(pub(crate) usize);

/// Names an app of a net.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AppId(pub(crate) usize);

/// The event.
#[derive(Debug)]
pub(crate) enum What {
    /// A frame comes out at an end of a wire.
    Arrive {
        wire: usize,
        end: usize,
        frame: Frame,
    },
    /// A port tells its stack that frames are there.
    Interrupt { port: usize },
    /// An app requested a call at this time.
    Wake { app: usize },
}

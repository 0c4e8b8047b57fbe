//! TAP devices ([`kern::sys::tap`]), with their offloads as another process is told of them and as they are reported.
//!
//! Locks: none.

use serde::{Deserialize, Serialize};

pub(crate) use kern::sys::tap::{
    DEV_NET_TUN, Offloads, adopt, create, leave_to_namespace, open, set_offloads,
};

/// [`Offloads`], in the words of JSON.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Offloads")]
pub(crate) struct OffloadsInJson {
    vnet_hdr: bool,
    csum: bool,
    tso4: bool,
    tso6: bool,
    tso_ecn: bool,
    uso: bool,
    #[serde(default)]
    big_tcp: bool,
    #[serde(default)]
    jumbo_option: bool,
}

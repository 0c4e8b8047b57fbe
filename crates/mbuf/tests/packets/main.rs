//! Tests of packets and chains that need no process of their own. Those with a count of the whole process, or with
//! variables of the environment, are programs beside this one.

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/pages.rs"]
mod pages;

mod condense;
mod cuts;
mod exhaustion;
mod ext_pgs;
mod ext_pgs_files;
mod io;
mod owner_panics;
mod packet_zone;
mod queue;
mod read_only;
mod reshape;
mod tags;
mod threads;

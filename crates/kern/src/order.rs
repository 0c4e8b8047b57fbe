//! The one table of lock ranks, outermost first.
//!
//! A thread may take a lock only if its rank is greater than the rank of every lock the thread
//! already holds; [`witness`](crate::witness) checks that. A new kind of lock gets its place here,
//! in review, before it is used. The gaps are there for that.
//!
//! | rank | name | what it protects, and why it stands here |
//! |---:|---|---|
//! | 0 | [`GIANT`] | the whole stack, when it is configured to run under one lock: the outermost lock |
//! | 100 | [`STACK_CONFIG`] | the owner of each queue of a stack: a change touches interfaces and tables |
//! | 200 | [`INTERFACES`] | the list of interfaces: attaching one touches addresses, queues and routes |
//! | 250 | [`LISTENERS`] | the listening sockets: searched before a new connection is made |
//! | 300 | [`CONN_TABLE`] | demultiplexing of connections: a thread finds the connection here first, then locks it |
//! | 350 | [`SPLICE`] | one splice: its turn locks the connections at its ends, one after the other |
//! | 400 | [`CONN`] | one connection with its socket buffers: TCP runs under it and sends from it |
//! | 450 | [`ACCEPT_QUEUE`] | connections on their way to a user: pushed by the connection that became ready |
//! | 460 | [`UNIX_NAMES`] | the owner of each name: a thread finds the UNIX-domain socket here before it accesses it |
//! | 470 | [`UNIX_PEER`] | the peer of a datagram socket: read, then the peer's buffer is locked |
//! | 480 | [`UNIX_FLIGHT`] | which sockets wait in whose buffers: held while one goes into a buffer |
//! | 490 | [`UNIX_RCV`] | what waits for one socket: data, connections; shared by its senders and itself |
//! | 500 | [`UDP_TABLE`] | demultiplexing of UDP sockets: as for connections |
//! | 550 | [`UDP`] | one UDP socket with its queue, and with its route, under which it sends |
//! | 600 | [`REASS`] | IP reassembly: gives whole datagrams upward only after it is released |
//! | 650 | [`ARP`] | neighbour cache with packets that wait for an answer: read by output, under a connection |
//! | 700 | [`ROUTE`] | the routing table: read by output, also for ARP's own packets |
//! | 710 | [`GROUPS`] | the list of an interface's groups is made, out of what the next rank protects, and applied |
//! | 720 | [`IFADDR`] | an interface's addresses and groups: compared with those of packets, and where a route gets a source |
//! | 750 | [`IFQUEUE`] | an interface's queue of packets: the last lock of output |
//! | 800 | [`CALLOUT`] | the timer wheel: any of the above sets and cancels timers under its own lock |
//! | 850 | [`TASKQUEUE`] | the queue of tasks: any of the above hands on work under its own lock |
//! | 870 | [`RANDOM`] | the random stream: ids and sequence numbers, under any lock above |
//! | 880 | [`KEG_MEMBERS`] | caches are taken back from other CPUs: memory is needed under any lock above |
//! | 900 | [`ZONE`] | a depot: used when the cache of the CPU is empty or full |
//! | 920 | [`KEG`] | a keg and its slabs: used by the zones that share it |
//! | 940 | [`PARKER`] | where a thread sleeps: its waker is called with no lock held, from wherever that is |
//! | 950 | [`STATS`] | registries of counters: innermost, so that any thread may count |
//! | - | [`UNRANKED`] | no declared place: WITNESS learns it |
//!
//! Callbacks run with none of these held: see [`witness::assert_none`](crate::witness::assert_none).

/// The lock over a whole stack.
pub const GIANT: u16 = 0;
/// Configuration of a stack.
pub const STACK_CONFIG: u16 = 100;
/// The list of interfaces.
pub const INTERFACES: u16 = 200;
/// The listening sockets.
pub const LISTENERS: u16 = 250;
/// The table of connections.
pub const CONN_TABLE: u16 = 300;
/// One splice of two connections.
pub const SPLICE: u16 = 350;
/// One connection.
pub const CONN: u16 = 400;
/// Connections on their way to a user.
pub const ACCEPT_QUEUE: u16 = 450;
/// Names of UNIX-domain sockets.
pub const UNIX_NAMES: u16 = 460;
/// The peer of a UNIX-domain datagram socket.
pub const UNIX_PEER: u16 = 470;
/// UNIX-domain sockets in flight.
pub const UNIX_FLIGHT: u16 = 480;
/// The data and connections that wait for one UNIX-domain socket.
pub const UNIX_RCV: u16 = 490;
/// The table of UDP sockets.
pub const UDP_TABLE: u16 = 500;
/// One UDP socket.
pub const UDP: u16 = 550;
/// IP reassembly.
pub const REASS: u16 = 600;
/// The neighbour cache.
pub const ARP: u16 = 650;
/// The routing table.
pub const ROUTE: u16 = 700;
/// Making the list of an interface's groups.
pub const GROUPS: u16 = 710;
/// An interface's addresses and groups.
pub const IFADDR: u16 = 720;
/// An interface's packet queue.
pub const IFQUEUE: u16 = 750;
/// The timer wheel.
pub const CALLOUT: u16 = 800;
/// The queue of tasks.
pub const TASKQUEUE: u16 = 850;
/// The random stream.
pub const RANDOM: u16 = 870;
/// The zones of a keg: held while caches are taken back from other CPUs.
pub const KEG_MEMBERS: u16 = 880;
/// A zone and its depot.
pub const ZONE: u16 = 900;
/// A keg and its slabs.
pub const KEG: u16 = 920;
/// Where a thread sleeps in a blocking call.
pub const PARKER: u16 = 940;
/// Registries of counters.
pub const STATS: u16 = 950;
/// No place: WITNESS learns it. For programs and tests; the stack's own locks have their places.
pub const UNRANKED: u16 = u16::MAX;

const _: () = {
    let order = [
        GIANT,
        STACK_CONFIG,
        INTERFACES,
        LISTENERS,
        CONN_TABLE,
        SPLICE,
        CONN,
        ACCEPT_QUEUE,
        UNIX_NAMES,
        UNIX_PEER,
        UNIX_FLIGHT,
        UNIX_RCV,
        UDP_TABLE,
        UDP,
        REASS,
        ARP,
        ROUTE,
        GROUPS,
        IFADDR,
        IFQUEUE,
        CALLOUT,
        TASKQUEUE,
        RANDOM,
        KEG_MEMBERS,
        ZONE,
        KEG,
        PARKER,
        STATS,
        UNRANKED,
    ];
    let mut i = 1;
    while i < order.len() {
        assert!(order[i - 1] < order[i], "the table is out of order");
        i += 1;
    }
};

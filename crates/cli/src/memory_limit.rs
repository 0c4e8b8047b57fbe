//! The parts of the memory that this process may use: the storage for packets, copies of served files, TLS
//! handshakes, requests.
//!
//! Clients fill them. If they could grow beyond the memory of a cgroup, the kernel would kill the process, and so would
//! end all connections, where the stack only refuses the next packet.
//!
//! Sources: cgroups(7); the kernel's cgroup-v2.rst (`memory.max`) and cgroup-v1/memory.rst.

use std::fs;
use std::path::Path;

use mbuf::PoolConfig;

use crate::http::request::HEAD_MAX;

/// Clusters of each of the four sizes take at most one part in so many of the memory: all of them a half.
const CLUSTERS_SHARE: usize = 8;
/// Bytes of clusters at least, however little memory there is.
const CLUSTERS_LEAST: usize = 2 << 20;
/// The same share of copies of files.
const FILES_SHARE: usize = 8;
/// The same share of TLS handshakes with clients, and the bytes that one may keep: a message of 64 KiB, of which the
/// end is missing.
const HANDSHAKES_SHARE: usize = 16;
const HANDSHAKE_BYTES: usize = 80 << 10;
/// The same share of the requests that clients have sent a part of.
const REQUESTS_SHARE: usize = 8;
/// One connection in this many may be in its handshake, however much memory there is.
const HANDSHAKE_SHARE: usize = 4;

/// The memory that this process may use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemoryLimit(usize);

impl MemoryLimit {
    /// The machine's, or less if a cgroup has less. Reads files, so it must be called before the process gives them up.
    pub(crate) fn read() -> MemoryLimit {
        let cgroups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let of_cgroup = least(Path::new("/sys/fs/cgroup"), &cgroups);
        MemoryLimit(of_cgroup.map_or(of_system(), |least| least.min(of_system())))
    }

    /// The limits of the storage of a stack.
    pub(crate) fn pool(self) -> PoolConfig {
        pool_within(self.0)
    }

    /// Bytes of copies of files: so many, or fewer.
    pub(crate) fn files(self, most: u64) -> u64 {
        most.min((self.0 / FILES_SHARE) as u64)
    }

    /// Connections whose clients send requests: so many, or fewer.
    pub(crate) fn connections(self, most: usize) -> usize {
        most.min(self.0 / REQUESTS_SHARE / HEAD_MAX).max(1)
    }

    /// TLS handshakes at once, of so many connections with clients.
    pub(crate) fn handshakes(self, connections: usize) -> usize {
        let fit = self.0 / HANDSHAKES_SHARE / HANDSHAKE_BYTES;
        fit.min(connections / HANDSHAKE_SHARE).max(1)
    }
}

/// The same with so many bytes of memory.
fn pool_within(memory: usize) -> PoolConfig {
    let most = PoolConfig::default();
    let clusters = (memory / CLUSTERS_SHARE).clamp(CLUSTERS_LEAST, most.cluster_bytes_max);
    PoolConfig {
        mbufs_max: most.mbufs_max / (most.cluster_bytes_max / clusters),
        cluster_bytes_max: clusters,
    }
}

/// Bytes of the machine's memory.
fn of_system() -> usize {
    let info = rustix::system::sysinfo();
    (info.totalram as usize).saturating_mul(info.mem_unit as usize)
}

/// The least limit of this process's cgroups and of those above them. `cgroups` is /proc/self/cgroup, `root` the
/// directory of all hierarchies.
fn least(root: &Path, cgroups: &str) -> Option<usize> {
    let limits = cgroups.lines().filter_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        let (hierarchy, file) = match controllers {
            "" => (root.to_owned(), "memory.max"),
            _ if controllers.split(',').any(|name| name == "memory") => {
                (root.join("memory"), "memory.limit_in_bytes")
            }
            _ => return None,
        };
        let path = Path::new(path.trim_start_matches('/'));
        // The last one is the hierarchy itself: in a container it is the container's cgroup, whose path is the host's.
        let groups = path.ancestors().map(|group| hierarchy.join(group));
        let texts = groups.filter_map(|group| fs::read_to_string(group.join(file)).ok());
        // No limit is "max", or in version 1 a number larger than any memory.
        texts.filter_map(|text| text.trim().parse().ok()).min()
    });
    limits.min()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_least_limit_of_a_cgroup_and_those_above_counts() {
        // Breaks when a limit above the own cgroup is overlooked, or one of another hierarchy or controller is
        // believed.
        let root = std::env::temp_dir().join(format!("mbuma-cgroups-{}", std::process::id()));
        let write = |group: &str, file: &str, text: &str| {
            let group = root.join(group);
            fs::create_dir_all(&group).expect("ours");
            fs::write(group.join(file), text).expect("ours");
        };
        write("a", "memory.max", "3000\n");
        write("a/b", "memory.max", "max\n");
        write("other", "memory.max", "1\n");
        write("memory/c", "memory.limit_in_bytes", "2000\n");
        write("cpu/c", "memory.limit_in_bytes", "1\n");
        let two = "0::/a/b\n";
        let one = "4:cpu:/c\n3:hugetlb,memory:/c/gone\n1:name=systemd:/other\n";
        assert_eq!(least(&root, two), Some(3000));
        assert_eq!(least(&root, one), Some(2000));
        assert_eq!(least(&root, &format!("{one}{two}")), Some(2000));
        assert_eq!(least(&root, "0::/\n\nnonsense\n"), None);
        fs::remove_dir_all(root).expect("ours");
    }

    #[test]
    fn little_memory_makes_a_small_pool() {
        // Breaks when the storage of a small machine may take all of its memory, or a large one gets less than the
        // usual.
        let most = PoolConfig::default();
        let bytes = |memory| pool_within(memory).cluster_bytes_max;
        assert_eq!(bytes(usize::MAX), most.cluster_bytes_max);
        assert_eq!(bytes(400 << 20), 50 << 20);
        assert_eq!(bytes(0), CLUSTERS_LEAST);
        assert!(pool_within(400 << 20).mbufs_max < most.mbufs_max / 4);
        assert_eq!(pool_within(usize::MAX).mbufs_max, most.mbufs_max);
    }

    #[test]
    fn little_memory_leaves_room_beside_files_handshakes_and_requests() {
        // Breaks when clients that ask for many files, begin many handshakes with large messages, or never end their
        // requests fill a small cgroup.
        let of = |memory| {
            let limit = MemoryLimit(memory);
            let counts = (limit.handshakes(4096), limit.connections(4096));
            (limit.files(64 << 20), counts)
        };
        assert_eq!(of(usize::MAX), (64 << 20, (1024, 4096)));
        assert_eq!(of(1 << 30), (64 << 20, (819, 4096)));
        assert_eq!(of(64 << 20), (8 << 20, (51, 512)));
        assert_eq!(of(0), (0, (1, 1)));
        for memory in [16 << 20, 32 << 20, 64 << 20, 100 << 20, 256 << 20, 1 << 30] {
            let limit = MemoryLimit(memory);
            let pool = limit.pool();
            let storage = 4 * pool.cluster_bytes_max + pool.mbufs_max * 256;
            let clients =
                limit.handshakes(4096) * HANDSHAKE_BYTES + limit.connections(4096) * HEAD_MAX;
            let all = storage + clients + limit.files(64 << 20) as usize;
            assert!(all <= memory / 8 * 7, "{all} of {memory}");
        }
    }
}

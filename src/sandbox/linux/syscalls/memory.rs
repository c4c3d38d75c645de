//! Calls on the process's own memory. How much it may have is bounded by limits, not here.

use nix::libc;

use super::table::{Condition, Row, allow, answer_done, deny, deny_if, has_bit};

/// Shared memory without a file stays when it is not mapped any more, and then nobody's watch sees
/// it. Private memory, and shared memory in a file of the run's own, which has a quota, pass.
///
/// Pages of a pool of huge ones count for nobody either.
const UNCOUNTED: &[Condition] = &[
    &[
        has_bit(3, libc::MAP_ANONYMOUS.cast_unsigned()),
        has_bit(3, libc::MAP_SHARED.cast_unsigned()),
    ],
    &[has_bit(3, libc::MAP_HUGETLB.cast_unsigned())],
];

pub(super) static ROWS: &[Row] = &[
    allow(libc::SYS_brk, "brk", "malloc"),
    deny_if(libc::SYS_mmap, "mmap", UNCOUNTED, "malloc, libraries, threads' stacks"),
    allow(libc::SYS_munmap, "munmap", "malloc, libraries"),
    allow(libc::SYS_mremap, "mremap", "realloc of large blocks; mmap.resize"),
    allow(libc::SYS_mprotect, "mprotect", "the dynamic linker; threads' guard pages"),
    allow(libc::SYS_madvise, "madvise", "malloc, z3, threads that end"),
    answer_done(libc::SYS_msync, "msync", "mmap.flush; as fsync, nothing of a run is to be saved"),
    allow(libc::SYS_mlock, "mlock", "keys kept out of swap; RLIMIT_MEMLOCK bounds it"),
    allow(libc::SYS_mlock2, "mlock2", "keys kept out of swap; RLIMIT_MEMLOCK bounds it"),
    allow(libc::SYS_munlock, "munlock", "undoes mlock"),
    allow(libc::SYS_mseal, "mseal", "newer glibc seals its own mappings"),
    allow(libc::SYS_membarrier, "membarrier", "musl's dlopen; concurrent libraries"),
    deny(libc::SYS_mincore, "mincore", "tells what others read from files (CVE-2019-5489)"),
    deny(libc::SYS_memfd_secret, "memfd_secret", "memory that no supervisor can look into"),
    deny(libc::SYS_userfaultfd, "userfaultfd", "halts the kernel mid-copy, which wins its races"),
    deny(libc::SYS_remap_file_pages, "remap_file_pages", "obsolete and emulated; nothing uses it"),
    deny(libc::SYS_process_vm_readv, "process_vm_readv", "reads another process's memory"),
    deny(libc::SYS_process_vm_writev, "process_vm_writev", "writes another process's memory"),
    deny(libc::SYS_process_madvise, "process_madvise", "pages out another process's memory"),
    deny(libc::SYS_process_mrelease, "process_mrelease", "frees a dying process's memory"),
    deny(libc::SYS_mbind, "mbind", "OpenBLAS ignores a failure; Docker denies it too"),
    deny(libc::SYS_set_mempolicy, "set_mempolicy", "steers memory between nodes; nothing needs it"),
    deny(
        libc::SYS_get_mempolicy,
        "get_mempolicy",
        "libnuma takes EPERM for a machine without nodes",
    ),
    deny(libc::SYS_migrate_pages, "migrate_pages", "moves another process's pages"),
    deny(libc::SYS_move_pages, "move_pages", "moves pages and tells where another's are"),
];

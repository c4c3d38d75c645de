//! The rules for calls on the process's own memory. These rules never limit the size of the memory, because the limits
//! of the run do so.

use nix::libc;

use super::table::Rule::{Allow, Answer, Deny, DenyIf};
use super::table::{Condition, Row, has_bit, rows};

/// Matches mappings that the memory watch (`linux/memory.rs`) does not count.
///
/// Shared memory without a file can exist after it is unmapped, and the watch counts only mapped memory. Shared memory
/// in the run's own files is allowed, because the size of these files is limited.
///
/// Pages from the pool of huge pages (`MAP_HUGETLB`) do not count as resident.
const UNCOUNTED: &[Condition] = &[
    &[
        has_bit(3, libc::MAP_ANONYMOUS.cast_unsigned()),
        has_bit(3, libc::MAP_SHARED.cast_unsigned()),
    ],
    &[has_bit(3, libc::MAP_HUGETLB.cast_unsigned())],
];

pub(super) static ROWS: &[Row] = rows! {
    SYS_brk: Allow, "malloc";
    SYS_mmap: DenyIf(UNCOUNTED), "malloc, libraries, threads' stacks";
    SYS_munmap: Allow, "malloc, libraries";
    SYS_mremap: Allow, "realloc of large blocks; mmap.resize";
    SYS_mprotect: Allow, "the dynamic linker; threads' guard pages";
    SYS_madvise: Allow, "malloc, z3, threads that end";
    SYS_msync: Answer(0), "mmap.flush; as fsync, nothing of a run is to be saved";
    SYS_mlock: Allow, "keys kept out of swap; RLIMIT_MEMLOCK bounds it";
    SYS_mlock2: Allow, "keys kept out of swap; RLIMIT_MEMLOCK bounds it";
    SYS_munlock: Allow, "undoes mlock";
    SYS_mseal: Allow, "newer glibc seals its own mappings";
    SYS_membarrier: Allow, "musl's dlopen; concurrent libraries";
    SYS_mincore: Deny, "tells what others read from files (CVE-2019-5489)";
    SYS_memfd_secret: Deny, "memory that no supervisor can look into";
    SYS_userfaultfd: Deny, "halts the kernel mid-copy, which wins its races";
    SYS_remap_file_pages: Deny, "obsolete and emulated; nothing uses it";
    SYS_process_vm_readv: Deny, "reads another process's memory";
    SYS_process_vm_writev: Deny, "writes another process's memory";
    SYS_process_madvise: Deny, "pages out another process's memory";
    SYS_process_mrelease: Deny, "frees a dying process's memory";
    SYS_mbind: Deny, "OpenBLAS ignores a failure; Docker denies it too";
    SYS_set_mempolicy: Deny, "steers memory between nodes; nothing needs it";
    SYS_get_mempolicy: Deny, "libnuma takes EPERM for a machine without nodes";
    SYS_migrate_pages: Deny, "moves another process's pages";
    SYS_move_pages: Deny, "moves pages and tells where another's are";
};

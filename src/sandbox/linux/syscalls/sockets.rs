//! Calls on sockets, and on waiting for descriptors to become ready.
//!
//! A script has no network and reaches no other process by a socket. What it has is a connected
//! pair of stream sockets, which asyncio makes for itself.

use nix::libc;

use super::table::{Condition, Row, allow, deny, deny_if, has_bit, is_not, lacks_bit, not_null};

/// Anything but a pair of local stream sockets: a datagram socket could send to any socket file.
/// The type is the lowest four bits, of which `SOCK_STREAM` is 1; the others are flags. Domain and
/// type are an `int`.
const OTHER_PAIR: &[Condition] = &[
    &[is_not(0, libc::AF_UNIX.cast_unsigned())],
    &[lacks_bit(1, 1)],
    &[has_bit(1, 2)],
    &[has_bit(1, 4)],
    &[has_bit(1, 8)],
];

/// An address (a pointer) to send to, and urgent data, whose flag is in an `unsigned int`.
const ADDRESSED_OR_URGENT: &[Condition] = &[&[not_null(4)], URGENT_DATA];
const URGENT: &[Condition] = &[URGENT_DATA];
const URGENT_DATA: Condition = &[has_bit(3, libc::MSG_OOB.cast_unsigned())];

/// Anything but what a wrapped socket is asked: its kind, and what went wrong. `SO_PEERPIDFD` would be
/// a handle on the process at the other end, `SO_PEERGROUPS` tells of its user. Level and option are
/// an `int`.
const OTHER_QUESTION: &[Condition] = &[
    &[is_not(1, libc::SOL_SOCKET.cast_unsigned())],
    &[
        is_not(2, libc::SO_TYPE.cast_unsigned()),
        is_not(2, libc::SO_ERROR.cast_unsigned()),
        is_not(2, libc::SO_DOMAIN.cast_unsigned()),
        is_not(2, libc::SO_PROTOCOL.cast_unsigned()),
        is_not(2, libc::SO_ACCEPTCONN.cast_unsigned()),
    ],
];

pub(super) static ROWS: &[Row] = &[
    deny_if(libc::SYS_socketpair, "socketpair", OTHER_PAIR, "asyncio wakes itself up by a pair"),
    deny_if(
        libc::SYS_sendto,
        "sendto",
        ADDRESSED_OR_URGENT,
        "asyncio's wake-up; urgent data is CVE-2025-38236",
    ),
    deny_if(
        libc::SYS_recvfrom,
        "recvfrom",
        URGENT,
        "asyncio's wake-up; urgent data is CVE-2025-38236",
    ),
    allow(libc::SYS_getsockname, "getsockname", "Python looks at every socket that it wraps"),
    allow(libc::SYS_getpeername, "getpeername", "asyncio's transports"),
    deny_if(
        libc::SYS_getsockopt,
        "getsockopt",
        OTHER_QUESTION,
        "Python asks every socket for its kind; others are handles on the peer",
    ),
    allow(libc::SYS_shutdown, "shutdown", "asyncio's transports"),
    deny(libc::SYS_socket, "socket", "the network, and kernel modules (CVE-2017-7308)"),
    deny(libc::SYS_bind, "bind", "gives a socket a name that others find"),
    deny(libc::SYS_connect, "connect", "reaches another process or machine"),
    deny(libc::SYS_listen, "listen", "waits for another process or machine"),
    deny(libc::SYS_accept, "accept", "receives another process or machine"),
    deny(libc::SYS_accept4, "accept4", "receives another process or machine"),
    deny(libc::SYS_sendmsg, "sendmsg", "addresses and descriptors in flight (CVE-2021-0920)"),
    deny(libc::SYS_sendmmsg, "sendmmsg", "as sendmsg"),
    deny(libc::SYS_recvmsg, "recvmsg", "receives descriptors; the pair carries none"),
    deny(libc::SYS_recvmmsg, "recvmmsg", "as recvmsg"),
    deny(libc::SYS_setsockopt, "setsockopt", "packet filters and much rarely tested code"),
    allow(libc::SYS_epoll_create1, "epoll_create1", "asyncio; selectors"),
    allow(libc::SYS_epoll_ctl, "epoll_ctl", "asyncio; selectors"),
    allow(libc::SYS_epoll_pwait, "epoll_pwait", "asyncio; selectors"),
    allow(libc::SYS_epoll_pwait2, "epoll_pwait2", "newer libraries' epoll"),
    allow(libc::SYS_ppoll, "ppoll", "select.poll on aarch64"),
    allow(libc::SYS_pselect6, "pselect6", "select.select"),
    allow(libc::SYS_eventfd2, "eventfd2", "os.eventfd; runtimes in native libraries"),
];

/// Calls that only `x86_64` still has.
#[cfg(target_arch = "x86_64")]
pub(super) static LEGACY_ROWS: &[Row] = &[
    allow(libc::SYS_epoll_create, "epoll_create", "code that predates epoll_create1"),
    allow(libc::SYS_epoll_wait, "epoll_wait", "asyncio; selectors"),
    allow(libc::SYS_poll, "poll", "select.poll; subprocess.communicate"),
    allow(libc::SYS_select, "select", "musl; time.sleep before 3.11"),
];

/// Calls that only `x86_64` still has.
#[cfg(not(target_arch = "x86_64"))]
pub(super) static LEGACY_ROWS: &[Row] = &[];

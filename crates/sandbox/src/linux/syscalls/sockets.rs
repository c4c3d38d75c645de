//! The rules for calls on sockets, and for calls that wait until descriptors are ready.
//!
//! These rules never let a script reach a network or another process through a socket. A script can only create
//! connected pairs of stream sockets, because asyncio needs such a pair.

use nix::libc;

use super::table::Rule::{Allow, Deny, DenyIf};
use super::table::{Condition, Row, has_bit, is_not, lacks_bit, not_null, rows};

/// Matches every `socketpair` except for a pair of local stream sockets, because a datagram socket could send to any
/// socket file. The lowest four bits of argument 1 are the type, and `SOCK_STREAM` is 1. The other bits are flags. The
/// domain and the type are each an `int`.
const OTHER_PAIR: &[Condition] = &[
    &[is_not(0, libc::AF_UNIX.cast_unsigned())],
    &[lacks_bit(1, 1)],
    &[has_bit(1, 2)],
    &[has_bit(1, 4)],
    &[has_bit(1, 8)],
];

/// Matches a `sendto` with a destination address, which is a pointer, or with urgent data.
const ADDRESSED_OR_URGENT: &[Condition] = &[&[not_null(4)], URGENT_DATA];
/// Matches a `recvfrom` that requests urgent data.
const URGENT: &[Condition] = &[URGENT_DATA];
/// Holds if the flag for urgent data is set. The flags are an `unsigned int`.
const URGENT_DATA: Condition = &[has_bit(3, libc::MSG_OOB.cast_unsigned())];

/// Matches every `getsockopt`, except for the options that Python queries when it wraps a socket: the kind and the
/// error of the socket. Among the matched options, `SO_PEERPIDFD` would return a handle on the peer process, and
/// `SO_PEERGROUPS` the groups of the peer's user. The level and the option are each an `int`.
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

pub(super) static ROWS: &[Row] = rows! {
    SYS_socketpair: DenyIf(OTHER_PAIR), "asyncio wakes itself up by a pair";
    SYS_sendto: DenyIf(ADDRESSED_OR_URGENT), "asyncio's wake-up; urgent data is CVE-2025-38236";
    SYS_recvfrom: DenyIf(URGENT), "asyncio's wake-up; urgent data is CVE-2025-38236";
    SYS_getsockname: Allow, "Python looks at every socket that it wraps";
    SYS_getpeername: Allow, "asyncio's transports";
    SYS_getsockopt: DenyIf(OTHER_QUESTION),
        "Python asks every socket for its kind; others are handles on the peer";
    SYS_shutdown: Allow, "asyncio's transports";
    SYS_socket: Deny, "the network, and kernel modules (CVE-2017-7308)";
    SYS_bind: Deny, "gives a socket a name that others find";
    SYS_connect: Deny, "reaches another process or machine";
    SYS_listen: Deny, "waits for another process or machine";
    SYS_accept: Deny, "receives another process or machine";
    SYS_accept4: Deny, "receives another process or machine";
    SYS_sendmsg: Deny, "addresses and descriptors in flight (CVE-2021-0920)";
    SYS_sendmmsg: Deny, "as sendmsg";
    SYS_recvmsg: Deny, "receives descriptors; the pair carries none";
    SYS_recvmmsg: Deny, "as recvmsg";
    SYS_setsockopt: Deny, "packet filters and much rarely tested code";
    SYS_epoll_create1: Allow, "asyncio; selectors";
    SYS_epoll_ctl: Allow, "asyncio; selectors";
    SYS_epoll_pwait: Allow, "asyncio; selectors";
    SYS_epoll_pwait2: Allow, "newer libraries' epoll";
    SYS_ppoll: Allow, "select.poll on aarch64";
    SYS_pselect6: Allow, "select.select";
    SYS_eventfd2: Allow, "os.eventfd; runtimes in native libraries";
};

/// The rules for calls that only `x86_64` still has.
#[cfg(target_arch = "x86_64")]
pub(super) static LEGACY_ROWS: &[Row] = rows! {
    SYS_epoll_create: Allow, "code that predates epoll_create1";
    SYS_epoll_wait: Allow, "asyncio; selectors";
    SYS_poll: Allow, "select.poll; subprocess.communicate";
    SYS_select: Allow, "musl; time.sleep before 3.11";
};

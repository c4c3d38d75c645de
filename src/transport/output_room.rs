//! Enlarges the pipe to a client, so that a whole reply fits. This module never writes to the pipe.

use std::os::fd::AsFd;

#[cfg(target_os = "linux")]
use nix::fcntl::{FcntlArg, fcntl};

/// The capacity of the pipe in bytes: the default maximum for unprivileged users (`pipe(7)`).
#[cfg(target_os = "linux")]
const ROOM_BYTES: i32 = 1 << 20;

/// Enlarges the pipe `output`. A large reply passes through the usual 64 KiB in parts. For each part, the kernel must
/// schedule this process and the client in turn. On a busy machine, this delays later replies, such as the reply to
/// `ping`. Has no effect on larger pipes, on other files, on other systems, or if the kernel refuses.
#[cfg_attr(
    not(target_os = "linux"),
    expect(unused_variables, reason = "pipes have one size there")
)]
pub(crate) fn make_room(output: impl AsFd) {
    #[cfg(target_os = "linux")]
    if fcntl(&output, FcntlArg::F_GETPIPE_SZ).is_ok_and(|bytes| bytes < ROOM_BYTES) {
        let _ = fcntl(output, FcntlArg::F_SETPIPE_SZ(ROOM_BYTES));
    }
}

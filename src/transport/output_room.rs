//! Gives the pipe to a client room for a whole reply. This module never writes to the pipe.

use std::os::fd::AsFd;

#[cfg(target_os = "linux")]
use nix::fcntl::{FcntlArg, fcntl};

/// The room of the pipe, in bytes: the largest that the kernel gives an ordinary user by default (`pipe(7)`).
#[cfg(target_os = "linux")]
const ROOM_BYTES: i32 = 1 << 20;

/// Enlarges the pipe `output`. A pipe of the usual 64 KiB takes a large reply in parts, and this process and the client
/// would take turns for each, on a busy machine with a wait for a processor each time. The replies behind it, such as the
/// one to `ping`, would wait for all of them. Has no effect on larger pipes, on other files, on other systems, and if the
/// kernel refuses.
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

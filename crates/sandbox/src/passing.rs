//! Passes the descriptor of a run's side channel from the server to Python. Through this pipe, Python sends pictures
//! and reports. Before each order, [`send`] sends one byte on the same socket, with the descriptor if the run has a
//! side channel. This module never reads or writes the pipe.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd, RawFd};

use rustix::cmsg_space;
use rustix::io::{Errno, FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

/// The number under which the bootstrap in Python expects the side channel. It is above all descriptors that the
/// launcher has open, and below the limit for the script's descriptors (`RLIMIT_NOFILE`).
pub(crate) const SIDE_CHANNEL_FD: RawFd = 20;

/// The content of each message: one byte, with or without a descriptor.
const BYTE: [u8; 1] = [b'+'];

/// Sends one byte. If a descriptor is given, sends it together with the byte. Does not block on a socket to which
/// nothing was sent before.
pub fn send(socket: impl AsFd, descriptor: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let mut room = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut rights = SendAncillaryBuffer::new(&mut room);
    if let Some(descriptor) = &descriptor {
        rights.push(SendAncillaryMessage::ScmRights(std::slice::from_ref(descriptor)));
    }
    sendmsg(socket, &[IoSlice::new(&BYTE)], &mut rights, SendFlags::empty())?;
    Ok(())
}

/// Receives the descriptor that [`send`] sent, or `None` if it sent only the byte. Returns
/// [`io::ErrorKind::UnexpectedEof`] if the socket was closed first.
pub fn receive(socket: impl AsFd) -> io::Result<Option<OwnedFd>> {
    let mut room = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut rights = RecvAncillaryBuffer::new(&mut room);
    let mut byte = BYTE;
    let parts = &mut [IoSliceMut::new(&mut byte)];
    let received = recvmsg(socket, parts, &mut rights, RecvFlags::empty())?;
    if received.bytes == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let mut descriptor = None;
    for message in rights.drain() {
        if let RecvAncillaryMessage::ScmRights(mut descriptors) = message {
            descriptor = descriptors.next();
        }
    }
    if let Some(descriptor) = &descriptor {
        // Set close-on-exec here, because not every system can set it on receipt. There is no race, because this
        // process has no other thread.
        fcntl_setfd(descriptor, FdFlags::CLOEXEC)?;
    }
    Ok(descriptor)
}

/// Duplicates the descriptor as [`SIDE_CHANNEL_FD`], without close-on-exec, for the program that this process becomes or
/// starts.
pub(super) fn hand_down(descriptor: &OwnedFd) -> io::Result<OwnedFd> {
    let numbered = fcntl_dupfd_cloexec(descriptor, SIDE_CHANNEL_FD)?;
    if numbered.as_raw_fd() != SIDE_CHANNEL_FD {
        return Err(Errno::BUSY.into());
    }
    fcntl_setfd(&numbered, FdFlags::empty())?;
    Ok(numbered)
}

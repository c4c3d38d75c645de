//! The descriptor that takes a script's pictures, on its way from the server to Python: it goes ahead
//! of each order, over the same socket.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd, RawFd};

use rustix::cmsg_space;
use rustix::io::{Errno, FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

/// The number by which the bootstrap finds the descriptor: above those that its launcher has open, below
/// those that a script may have (`RLIMIT_NOFILE`).
pub(crate) const PICTURES_FD: RawFd = 20;

/// The byte that a descriptor comes with, or comes without.
const BYTE: [u8; 1] = [b'+'];

/// Sends a descriptor, or that there is none. Does not block where nothing was sent before.
pub fn send(socket: impl AsFd, descriptor: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let mut room = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut rights = SendAncillaryBuffer::new(&mut room);
    if let Some(descriptor) = &descriptor {
        rights.push(SendAncillaryMessage::ScmRights(std::slice::from_ref(descriptor)));
    }
    sendmsg(socket, &[IoSlice::new(&BYTE)], &mut rights, SendFlags::empty())?;
    Ok(())
}

/// Receives what [`send`] sent. [`io::ErrorKind::UnexpectedEof`] if that was nothing.
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
        // Not every system does it while it receives. This process has no other thread.
        fcntl_setfd(descriptor, FdFlags::CLOEXEC)?;
    }
    Ok(descriptor)
}

/// Gives the descriptor its number, and leaves it open for the program that this process becomes or
/// starts.
pub(super) fn hand_down(descriptor: &OwnedFd) -> io::Result<OwnedFd> {
    let numbered = fcntl_dupfd_cloexec(descriptor, PICTURES_FD)?;
    if numbered.as_raw_fd() != PICTURES_FD {
        return Err(Errno::BUSY.into());
    }
    fcntl_setfd(&numbered, FdFlags::empty())?;
    Ok(numbered)
}

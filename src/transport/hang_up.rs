//! Detects that the peer has closed a stream, even while the stream contains unread data. This module never reads the
//! stream.

use std::os::fd::AsFd;

/// Returns when the peer has closed `input`, even if its last lines are still unread. Never returns if the system does
/// not report a hang-up.
#[cfg_attr(not(target_os = "linux"), expect(unused_variables, reason = "not reported there"))]
pub(crate) async fn hung_up(input: impl AsFd) {
    #[cfg(target_os = "linux")]
    if linux::wait(input).await.is_ok() {
        return;
    }
    std::future::pending::<()>().await;
}

#[cfg(target_os = "linux")]
mod linux {
    use std::io;
    use std::os::fd::AsFd;

    use tokio::io::{Interest, Ready};
    use tokio::net::unix::pipe::Receiver;

    pub(super) async fn wait(input: impl AsFd) -> io::Result<Ready> {
        // `from_owned_fd_unchecked` does not check the type of the descriptor. `input` may also be a socket or a
        // blocking descriptor, because this function never reads. For a regular file, which never hangs up, the result
        // is an error.
        let input = Receiver::from_owned_fd_unchecked(input.as_fd().try_clone_to_owned()?)?;
        // Wait for priority data. The descriptor never reports priority data, because it is not registered for it, so
        // this wait returns only at the hang-up. A wait for readable data would return for every line.
        input.ready(Interest::PRIORITY).await
    }
}

#[cfg(target_os = "linux")]
#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{self, Write as _};
    use std::net::{Shutdown, TcpListener, TcpStream};
    use std::os::fd::AsRawFd as _;
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    use nix::sys::socket::{MsgFlags, send};
    use tokio::time::timeout;

    use super::*;

    /// The time within which a false hang-up would be reported.
    const NOTHING_FOR: Duration = Duration::from_millis(50);
    const SOON: Duration = Duration::from_secs(60);

    /// Asserts that the hang-up is reported after the writer is dropped, and not before.
    async fn assert_seen_when_dropped(input: impl AsFd, mut writer: impl io::Write) {
        let mut seen = Box::pin(hung_up(input));
        timeout(NOTHING_FOR, &mut seen).await.unwrap_err();
        writer.write_all(b"a line that nobody reads\n").unwrap();
        timeout(NOTHING_FOR, &mut seen).await.unwrap_err();
        drop(writer);
        timeout(SOON, seen).await.unwrap();
    }

    #[tokio::test]
    async fn the_end_is_seen_behind_what_nobody_reads() {
        let (input, writer) = io::pipe().unwrap();
        assert_seen_when_dropped(input, writer).await;
        let (input, writer) = UnixStream::pair().unwrap();
        assert_seen_when_dropped(input, writer).await;
    }

    #[tokio::test]
    async fn an_end_that_was_there_before_is_seen() {
        let (input, writer) = io::pipe().unwrap();
        drop(writer);
        timeout(SOON, hung_up(input)).await.unwrap();
    }

    #[tokio::test]
    async fn a_file_never_hangs_up() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"{}\n").unwrap();
        timeout(NOTHING_FOR, hung_up(file)).await.unwrap_err();
        timeout(NOTHING_FOR, hung_up(File::open("/dev/null").unwrap())).await.unwrap_err();
    }

    /// Urgent data must not count as a hang-up, because a hang-up ends the server.
    #[tokio::test]
    async fn urgent_data_is_no_end() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let writer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (input, _) = listener.accept().unwrap();
        send(writer.as_raw_fd(), b"!", MsgFlags::MSG_OOB).unwrap();
        assert_seen_when_dropped(input, writer).await;
    }

    #[tokio::test]
    async fn a_client_that_sends_nothing_more_and_listens_has_hung_up() {
        let (input, writer) = UnixStream::pair().unwrap();
        writer.shutdown(Shutdown::Write).unwrap();
        timeout(SOON, hung_up(input)).await.unwrap();
    }
}

//! The end of standard input, seen past what is not read yet.

/// Returns when nobody has the other end of standard input open any more, also while lines that were
/// sent before wait to be read. Never returns where the system does not report it.
pub(crate) async fn input_hung_up() {
    #[cfg(target_os = "linux")]
    if linux::wait().await.is_ok() {
        return;
    }
    std::future::pending::<()>().await;
}

#[cfg(target_os = "linux")]
mod linux {
    use std::io;
    use std::os::fd::AsFd as _;

    use tokio::io::Interest;
    use tokio::net::unix::pipe::Receiver;

    pub(super) async fn wait() -> io::Result<()> {
        // Nothing is read from it, so that it may be a socket, and may block. A file can not be
        // waited for, and never hangs up.
        let input = io::stdin().as_fd().try_clone_to_owned()?;
        let input = Receiver::from_owned_fd_unchecked(input)?;
        // Not for what can be read: that would wake this for every line. A hang-up always does.
        while !input.ready(Interest::PRIORITY).await?.is_read_closed() {
            tokio::task::yield_now().await;
        }
        Ok(())
    }
}

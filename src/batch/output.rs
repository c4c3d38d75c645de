//! Writes answers as whole lines, on a separate thread. This module never decides which lines are answered.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Seek as _, SeekFrom, Write};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::thread::{self, JoinHandle};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use thiserror::Error;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::answered::{Answered, ResultsError};
use crate::is_same_file;

/// The maximum number of answers that wait for the writing thread.
const ANSWERS_AHEAD: usize = 16;

/// The size in bytes at which the collected answers are written, even if more answers wait.
const CHUNK_BYTES_MAX: usize = 1024 * 1024;

/// The reason why answers cannot be written to a file.
#[derive(Debug, Error)]
pub(crate) enum OutputError {
    /// The file already has content, which would be lost.
    #[error("it exists already; use --resume to continue it, or choose another name")]
    Exists,
    /// The file is the input of the batch.
    #[error("it is also the input")]
    IsInput,
    /// Another batch is writing to the file.
    #[error("another batch is writing to it")]
    InUse,
    /// The content of the file cannot be read as the results of an earlier run.
    #[error("--resume: nothing was changed")]
    Results(#[from] ResultsError),
    /// The file could not be opened for another reason.
    #[error(transparent)]
    Open(#[from] io::Error),
}

/// The destination of the answers, and the answers that an earlier run has written there.
#[derive(Debug)]
pub(crate) struct Output {
    place: Place,
    pub(crate) answered: Answered,
}

#[derive(Debug)]
enum Place {
    Stdout,
    /// A file, and the total length of its complete lines in bytes.
    File(File, u64),
    /// A device, or a named pipe.
    Stream(File),
}

/// The queue of answers for the thread that writes them.
#[derive(Debug)]
pub(super) struct Writer {
    lines: mpsc::Sender<Vec<u8>>,
    thread: JoinHandle<io::Result<()>>,
    /// Cancelled when the program that reads the answers has closed the stream.
    unread: CancellationToken,
}

impl Output {
    pub(crate) fn stdout() -> Self {
        Self { place: Place::Stdout, answered: Answered::default() }
    }

    /// Opens a file for answers. If `resumes` is `false`, the file must be empty. `input` is the input of the batch, if
    /// the input is a file.
    pub(crate) fn open(
        path: &Path,
        resumes: bool,
        input: Option<&File>,
    ) -> Result<Self, OutputError> {
        if fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
            // Open the stream for writing only. A descriptor that can also read would itself count as a reader, so
            // this process would not notice that the real reader has closed the stream.
            let stream = OpenOptions::new().write(true).open(path)?;
            return Ok(Self { place: Place::Stream(stream), answered: Answered::default() });
        }
        let file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
        if !file.metadata()?.is_file() {
            return Err(
                io::Error::other("it was replaced by something other than a regular file").into()
            );
        }
        if let Some(input) = input
            && is_same(input, &file)?
        {
            return Err(OutputError::IsInput);
        }
        file.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => OutputError::InUse,
            TryLockError::Error(error) => OutputError::Open(error),
        })?;
        if !resumes && file.metadata()?.len() > 0 {
            return Err(OutputError::Exists);
        }
        let (answered, bytes) = Answered::read(&file)?;
        file.set_len(bytes)?;
        Ok(Self { place: Place::File(file, bytes), answered })
    }

    /// Returns whether answers are written to this file.
    pub(crate) fn is(&self, file: &File) -> io::Result<bool> {
        match &self.place {
            Place::File(own, _) => is_same(own, file),
            Place::Stdout | Place::Stream(_) => Ok(false),
        }
    }

    /// Returns whether a later batch can resume this batch from its answers.
    pub(crate) fn can_be_resumed(&self) -> bool {
        matches!(self.place, Place::File(..))
    }

    pub(super) fn start(self) -> io::Result<(Writer, Answered)> {
        let (lines, waiting) = mpsc::channel(ANSWERS_AHEAD);
        let Self { place, answered } = self;
        let unread = CancellationToken::new();
        if let Some(stream) = place.stream()? {
            watch_reader(stream, unread.clone())?;
        }
        let thread = thread::Builder::new().name("output".to_owned());
        let thread = thread.spawn(move || place.write_all(waiting))?;
        Ok((Writer { lines, thread, unread }, answered))
    }
}

pub(crate) fn is_same(one: &File, other: &File) -> io::Result<bool> {
    Ok(is_same_file(&one.metadata()?, &other.metadata()?))
}

/// Starts a thread that cancels `unread` when the reader has closed a stream. Without this thread, a script could run
/// for minutes before a failed write shows that no program reads its answer.
fn watch_reader(stream: OwnedFd, unread: CancellationToken) -> io::Result<()> {
    let thread = thread::Builder::new().name("reader".to_owned());
    // This thread is not joined. Most readers close the stream only after the batch, so the thread usually ends with
    // the process.
    thread.spawn(move || {
        // `poll` always reports errors and hang-ups, so no event is requested.
        let mut watched = [PollFd::new(stream.as_fd(), PollFlags::empty())];
        while poll(&mut watched, PollTimeout::NONE) == Err(Errno::EINTR) {}
        unread.cancel();
    })?;
    Ok(())
}

impl Place {
    /// Returns a duplicate of the file descriptor, if the output is a stream. `None` for a file, which has no reader
    /// that could close it.
    fn stream(&self) -> io::Result<Option<OwnedFd>> {
        match self {
            Self::Stdout => io::stdout().as_fd().try_clone_to_owned().map(Some),
            Self::Stream(stream) => stream.as_fd().try_clone_to_owned().map(Some),
            Self::File(..) => Ok(None),
        }
    }

    fn write_all(self, mut lines: mpsc::Receiver<Vec<u8>>) -> io::Result<()> {
        match self {
            // The file is locked until the process ends, so no other batch writes to it.
            Self::File(mut file, mut whole) => {
                file.seek(SeekFrom::End(0))?;
                while let Some(chunk) = next_chunk(&mut lines) {
                    if let Err(error) = file.write_all(&chunk) {
                        // Remove the incomplete line. If this also fails, `--resume` removes the line.
                        let _ = file.set_len(whole);
                        return Err(error);
                    }
                    whole += u64::try_from(chunk.len()).unwrap_or(u64::MAX);
                }
                file.sync_data()
            }
            Self::Stream(stream) => write_stream(stream, &mut lines),
            Self::Stdout => write_stream(io::stdout(), &mut lines),
        }
    }
}

fn write_stream(mut stream: impl Write, lines: &mut mpsc::Receiver<Vec<u8>>) -> io::Result<()> {
    while let Some(chunk) = next_chunk(lines) {
        stream.write_all(&chunk)?;
        stream.flush()?;
    }
    Ok(())
}

/// Waits for a line, and appends the lines that are already waiting. Stops at `CHUNK_BYTES_MAX` bytes.
fn next_chunk(lines: &mut mpsc::Receiver<Vec<u8>>) -> Option<Vec<u8>> {
    let mut chunk = lines.blocking_recv()?;
    while chunk.len() < CHUNK_BYTES_MAX
        && let Ok(line) = lines.try_recv()
    {
        chunk.extend_from_slice(&line);
    }
    Some(chunk)
}

impl Writer {
    /// Queues a line. Waits while the queue is full. Returns `false` if no more lines can be written.
    pub(super) async fn write(&self, line: Vec<u8>) -> bool {
        self.lines.send(line).await.is_ok()
    }

    /// Waits until writing fails: until the writing thread has ended, or until the program that reads the answers has
    /// closed the stream.
    pub(super) async fn failed(&self) {
        tokio::select! {
            () = self.lines.closed() => {}
            () = self.unread.cancelled() => {}
        }
    }

    /// Waits until all lines are written. The duration of the wait depends on the program that reads the answers.
    pub(super) async fn finish(self) -> io::Result<()> {
        let Self { lines, thread, unread: _ } = self;
        drop(lines);
        let join = move || thread.join();
        let joined = tokio::task::spawn_blocking(join).await.map_err(io::Error::from)?;
        joined.unwrap_or_else(|_| Err(io::Error::other("the writer stopped unexpectedly")))
    }
}

//! The answers on their way out: whole lines, written by a thread of their own.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Seek as _, SeekFrom, Write};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::thread::{self, JoinHandle};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use thiserror::Error;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::answered::{Answered, ResultsError};

/// The answers that wait to be written.
const ANSWERS_AHEAD: usize = 16;

/// The most bytes that are written at once.
const CHUNK_BYTES_MAX: usize = 1024 * 1024;

/// The reason why nothing can be written to a file.
#[derive(Debug, Error)]
pub(crate) enum OutputError {
    /// Somebody would be sorry.
    #[error("it is there already; --resume goes on with it, another name begins anew")]
    Exists,
    /// What is read would be written to.
    #[error("it is the input too")]
    IsInput,
    /// Both would run the same lines.
    #[error("another batch is writing to it")]
    InUse,
    /// No results, so nothing to go on with.
    #[error("--resume: nothing was changed")]
    Results(#[from] ResultsError),
    /// Anything else.
    #[error(transparent)]
    Open(#[from] io::Error),
}

/// The place of the answers, and those that are there.
#[derive(Debug)]
pub(crate) struct Output {
    place: Place,
    pub(crate) answered: Answered,
}

#[derive(Debug)]
enum Place {
    Stdout,
    /// A file, and the length of the whole lines in it.
    File(File, u64),
    /// A device, or a pipe that has a name.
    Stream(File),
}

/// Takes answers as they come.
#[derive(Debug)]
pub(super) struct Writer {
    lines: mpsc::Sender<Vec<u8>>,
    thread: JoinHandle<io::Result<()>>,
    /// Cancelled when nobody can read any more what is written.
    unread: CancellationToken,
}

impl Output {
    /// Has answers go to standard output.
    pub(crate) fn stdout() -> Self {
        Self { place: Place::Stdout, answered: Answered::default() }
    }

    /// Opens a file for answers: a new one, or where `resumes` one that has some. `input` is what is read, where
    /// that is a file.
    pub(crate) fn open(
        path: &Path,
        resumes: bool,
        input: Option<&File>,
    ) -> Result<Self, OutputError> {
        if fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
            // For writing alone: who could read from it, too, would never hear that its reader has left.
            let stream = OpenOptions::new().write(true).open(path)?;
            return Ok(Self { place: Place::Stream(stream), answered: Answered::default() });
        }
        let file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("it has become something else").into());
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

    /// Returns whether this is where the answers go.
    pub(crate) fn is(&self, file: &File) -> io::Result<bool> {
        match &self.place {
            Place::File(own, _) => is_same(own, file),
            Place::Stdout | Place::Stream(_) => Ok(false),
        }
    }

    /// Returns whether a later run can go on where this one ends.
    pub(crate) fn can_be_resumed(&self) -> bool {
        matches!(self.place, Place::File(..))
    }

    /// Starts to write.
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

/// Returns whether two descriptors are of one file.
pub(crate) fn is_same(one: &File, other: &File) -> io::Result<bool> {
    let (one, other) = (one.metadata()?, other.metadata()?);
    Ok((one.dev(), one.ino()) == (other.dev(), other.ino()))
}

/// Cancels `unread` when the reader of a stream has gone. A script that runs for minutes is not to go on for nobody
/// until there is something to write.
fn watch_reader(stream: OwnedFd, unread: CancellationToken) -> io::Result<()> {
    let thread = thread::Builder::new().name("reader".to_owned());
    // It ends with the process: the reader of most batches stays.
    thread.spawn(move || {
        // That there is an error, or no other end, is told unasked.
        let mut watched = [PollFd::new(stream.as_fd(), PollFlags::empty())];
        while poll(&mut watched, PollTimeout::NONE) == Err(Errno::EINTR) {}
        unread.cancel();
    })?;
    Ok(())
}

impl Place {
    /// Returns what a reader may leave, another descriptor of it.
    fn stream(&self) -> io::Result<Option<OwnedFd>> {
        match self {
            Self::Stdout => io::stdout().as_fd().try_clone_to_owned().map(Some),
            Self::Stream(stream) => stream.as_fd().try_clone_to_owned().map(Some),
            Self::File(..) => Ok(None),
        }
    }

    fn write_all(self, mut lines: mpsc::Receiver<Vec<u8>>) -> io::Result<()> {
        match self {
            // Unlocked by the process's end, whatever that is.
            Self::File(mut file, mut whole) => {
                file.seek(SeekFrom::End(0))?;
                while let Some(chunk) = next_chunk(&mut lines) {
                    if let Err(error) = file.write_all(&chunk) {
                        // A part of a line is of no use. If that fails too, `--resume` drops it.
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

/// Waits for a line, and takes those that are there with it.
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
    /// Hands a line over; waits while many wait. `false` if nothing more can be written.
    pub(super) async fn write(&self, line: Vec<u8>) -> bool {
        self.lines.send(line).await.is_ok()
    }

    /// Returns when nothing more can be written.
    pub(super) async fn failed(&self) {
        tokio::select! {
            () = self.lines.closed() => {}
            () = self.unread.cancelled() => {}
        }
    }

    /// Waits until everything is written. Takes as long as the reader does.
    pub(super) async fn finish(self) -> io::Result<()> {
        let Self { lines, thread, unread: _ } = self;
        drop(lines);
        let join = move || thread.join();
        let joined = tokio::task::spawn_blocking(join).await.map_err(io::Error::from)?;
        joined.unwrap_or_else(|_| Err(io::Error::other("the writer stopped unexpectedly")))
    }
}

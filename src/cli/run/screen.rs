//! The output of a script as a person sees it: its two streams, and on a terminal the time so far.
//!
//! A thread of its own writes, so that a terminal that is held up (Ctrl-S, a pager) holds up neither the script
//! nor the clock of its limits. What waits to be written is bounded by the caps of the streams.

use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use tokio_util::sync::CancellationToken;

use super::super::output::unless_closed;
use crate::executor::{Echo, Stream};
use crate::terminal::{DIM, VisibleBytes};

/// Between two looks at the clock.
const TICK: Duration = Duration::from_secs(1);

/// Returns to the start of the line, and clears it.
const CLEAR_LINE: &str = "\r\x1b[K";

/// The output of a script, on its way to a person.
pub(super) struct Screen {
    waiting: Arc<Waiting>,
    writer: io::Result<JoinHandle<Writer>>,
    opened: Instant,
}

/// The end of the output.
pub(super) struct Printed {
    /// `true` if a reader has gone before the end.
    pub(super) is_unread: bool,
    /// The time since the screen was opened.
    pub(super) elapsed: Duration,
}

impl Screen {
    /// Opens the screen. `unread` is cancelled when nobody reads the output any more.
    pub(super) fn open(unread: &CancellationToken) -> Self {
        let (waiting, unread, opened) = (Arc::<Waiting>::default(), unread.clone(), Instant::now());
        let ours = Arc::clone(&waiting);
        let write = move || Writer::new(opened).write_until_closed(&ours, &unread);
        let writer = thread::Builder::new().name("output".to_owned()).spawn(write);
        Self { waiting, writer, opened }
    }

    /// Returns the listener that shows what it hears.
    pub(super) fn echo(&self) -> Echo {
        let waiting = Arc::clone(&self.waiting);
        Echo::to(move |stream, bytes| waiting.add(stream, bytes))
    }

    /// Writes what still waits. Takes as long as the readers do. Where the person has interrupted, the
    /// terminal has put `^C` where the cursor was.
    pub(super) fn close(self, is_interrupted: bool) -> anyhow::Result<Printed> {
        self.waiting.close(is_interrupted);
        let writer = self.writer.context("no thread for the output of the script")?;
        let writer = writer.join().map_err(|_| anyhow::anyhow!("the output was not written"))?;
        let is_unread =
            writer.error.as_ref().is_some_and(|it| it.kind() == io::ErrorKind::BrokenPipe);
        let written = writer.error.map_or(Ok(()), Err);
        unless_closed(written).context("failed to print what the script printed")?;
        Ok(Printed { is_unread, elapsed: self.opened.elapsed() })
    }
}

/// Tells how a script ended, on a terminal: there is nothing to say of it in a file.
pub(super) fn say_end(code: i32, elapsed: Duration) {
    if io::stderr().is_terminal() {
        let seconds = elapsed.as_secs_f64();
        // Nothing depends on it.
        let _ = writeln!(anstream::stderr(), "{DIM}exit code {code}, {seconds:.1} s{DIM:#}");
    }
}

/// Output that was heard and is not written yet.
#[derive(Default)]
struct Waiting {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    is_closed: bool,
    is_interrupted: bool,
}

impl Waiting {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, stream: Stream, bytes: &[u8]) {
        let mut state = self.state();
        match stream {
            Stream::Stdout => state.stdout.extend_from_slice(bytes),
            Stream::Stderr => state.stderr.extend_from_slice(bytes),
        }
        drop(state);
        self.changed.notify_one();
    }

    fn close(&self, is_interrupted: bool) {
        let mut state = self.state();
        (state.is_closed, state.is_interrupted) = (true, is_interrupted);
        drop(state);
        self.changed.notify_one();
    }

    /// Waits for something to write, for the end, or for a tick, and takes what there is.
    fn take(&self) -> State {
        let is_idle = |state: &mut State| {
            state.stdout.is_empty() && state.stderr.is_empty() && !state.is_closed
        };
        let waited = self.changed.wait_timeout_while(self.state(), TICK, is_idle);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let State { stdout, stderr, is_closed, is_interrupted } = &mut *state;
        let (stdout, stderr) = (std::mem::take(stdout), std::mem::take(stderr));
        State { stdout, stderr, is_closed: *is_closed, is_interrupted: *is_interrupted }
    }
}

/// The two streams, and the line with the time.
struct Writer {
    stdout: Sink<io::Stdout>,
    stderr: Sink<io::Stderr>,
    opened: Instant,
    /// `true` where there can be a line with the time.
    has_clock: bool,
    is_clock_shown: bool,
    /// `true` while the cursor of the terminal is where a line begins.
    is_at_line_start: bool,
    /// The end of the readers.
    error: Option<io::Error>,
}

/// One stream, and how its bytes are shown.
struct Sink<W> {
    stream: W,
    /// The filter in front of a terminal; `None` where the stream is none.
    visible: Option<VisibleBytes>,
}

impl<W: Write + IsTerminal> Sink<W> {
    fn new(stream: W) -> Self {
        let visible = stream.is_terminal().then(VisibleBytes::default);
        Self { stream, visible }
    }

    /// Writes the bytes; to a terminal what can be seen of them.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.visible {
            Some(visible) => self.stream.write_all(visible.next(bytes).as_bytes())?,
            None => self.stream.write_all(bytes)?,
        }
        self.stream.flush()
    }

    /// Writes what stands for a character that was cut off, and returns whether there was one.
    fn end(&mut self) -> io::Result<bool> {
        let end = self.visible.as_mut().map_or("", VisibleBytes::end);
        self.stream.write_all(end.as_bytes())?;
        self.stream.flush()?;
        Ok(!end.is_empty())
    }
}

impl Writer {
    fn new(opened: Instant) -> Self {
        let stderr = Sink::new(io::stderr());
        // What cannot have colours need not know how to clear a line either (TERM=dumb), but for NO_COLOR.
        let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        Self {
            stdout: Sink::new(io::stdout()),
            has_clock: stderr.visible.is_some() && !is_dumb,
            stderr,
            opened,
            is_clock_shown: false,
            is_at_line_start: true,
            error: None,
        }
    }

    fn write_until_closed(mut self, waiting: &Waiting, unread: &CancellationToken) -> Self {
        loop {
            let state = waiting.take();
            self.error = self.write(&state).err();
            if self.error.is_some() {
                unread.cancel();
            }
            if self.error.is_some() || state.is_closed {
                return self;
            }
        }
    }

    fn write(&mut self, state: &State) -> io::Result<()> {
        let State { stdout, stderr, is_closed, is_interrupted } = state;
        if stdout.is_empty() && stderr.is_empty() && !is_closed {
            return self.show_clock();
        }
        // What is cleared with the clock is not in the way.
        self.is_at_line_start &= !is_interrupted || self.is_clock_shown;
        self.clear_clock()?;
        if !stdout.is_empty() {
            self.stdout.write(stdout)?;
            if self.stdout.visible.is_some() {
                self.is_at_line_start = stdout.ends_with(b"\n");
            }
        }
        if !stderr.is_empty() {
            self.stderr.write(stderr)?;
            if self.stderr.visible.is_some() {
                self.is_at_line_start = stderr.ends_with(b"\n");
            }
        }
        if *is_closed {
            let is_cut_off = self.stdout.end()? | self.stderr.end()?;
            self.is_at_line_start &= !is_cut_off;
            // What comes next is not the script's.
            if self.stderr.visible.is_some() && !self.is_at_line_start {
                self.stderr.write(b"\n")?;
            }
        }
        Ok(())
    }

    /// Shows the time so far, where that is no part of a line of the script.
    fn show_clock(&mut self) -> io::Result<()> {
        if !self.has_clock || !self.is_at_line_start {
            return Ok(());
        }
        let seconds = self.opened.elapsed().as_secs();
        let mut stderr = anstream::stderr();
        self.is_clock_shown = true;
        write!(stderr, "{DIM}running for {seconds} s{DIM:#}")?;
        // Not through the stream above, which takes the controls out where there are no colours.
        write!(self.stderr.stream, "\r")?;
        self.stderr.stream.flush()
    }

    fn clear_clock(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.is_clock_shown) {
            self.stderr.stream.write_all(CLEAR_LINE.as_bytes())?;
            self.stderr.stream.flush()?;
        }
        Ok(())
    }
}

//! Shows the output of a script to a person: its standard output and standard error, and on a terminal also the elapsed
//! time.
//!
//! A separate thread writes, so that a stopped terminal (Ctrl-S, a pager) stops neither the script nor its time limit.
//! Output that is not yet written stays in memory. The limits on the script's streams also limit this memory.
//!
//! This module does not use the crate indicatif, because indicatif writes in the thread of its caller.

use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use tokio_util::sync::CancellationToken;

use super::super::output::unless_closed;
use crate::executor::{Echo, Stream};
use crate::terminal::{DIM, VisibleBytes};

/// The interval at which the elapsed time is updated.
const TICK: Duration = Duration::from_secs(1);

/// The escape sequence that moves the cursor to the start of the line and clears the line.
const CLEAR_LINE: &str = "\r\x1b[K";

/// The display of a script's output, on standard output and standard error.
pub(super) struct Screen {
    waiting: Arc<Waiting>,
    writer: io::Result<JoinHandle<Writer>>,
    opened: Instant,
}

/// The result of showing the output of a script.
pub(super) struct Printed {
    /// Whether a reader of the output closed its pipe before the script ended.
    pub(super) is_unread: bool,
    /// Whether the script's standard error ends without a line end. Never `true` for a terminal.
    pub(super) is_line_open: bool,
    /// The time from the opening of the screen to its closing.
    pub(super) elapsed: Duration,
}

impl Screen {
    /// Opens the screen. Cancels the token `unread` if the output cannot be written.
    pub(super) fn open(unread: &CancellationToken) -> Self {
        let (waiting, unread, opened) = (Arc::<Waiting>::default(), unread.clone(), Instant::now());
        let ours = Arc::clone(&waiting);
        let write = move || Writer::new(opened).write_until_closed(&ours, &unread);
        let writer = thread::Builder::new().name("output".to_owned()).spawn(write);
        Self { waiting, writer, opened }
    }

    /// Returns a listener that shows all output that it receives.
    pub(super) fn echo(&self) -> Echo {
        let waiting = Arc::clone(&self.waiting);
        Echo::to(move |stream, bytes| waiting.add(stream, bytes))
    }

    /// Writes the remaining output, and waits until it is written. `is_interrupted` means that Ctrl-C was pressed, so
    /// the terminal has printed `^C` at the cursor.
    pub(super) fn close(self, is_interrupted: bool) -> anyhow::Result<Printed> {
        self.waiting.close(is_interrupted);
        let writer =
            self.writer.context("failed to start a thread for the output of the script")?;
        let writer = writer.join().map_err(|_| anyhow::anyhow!("the output was not written"))?;
        let is_unread =
            writer.error.as_ref().is_some_and(|it| it.kind() == io::ErrorKind::BrokenPipe);
        let written = writer.error.map_or(Ok(()), Err);
        unless_closed(written).context("failed to print the output of the script")?;
        let is_line_open = writer.stderr.is_line_open && writer.stderr.visible.is_none();
        Ok(Printed { is_unread, is_line_open, elapsed: self.opened.elapsed() })
    }
}

/// Ends the line of standard error, so that a message can follow.
pub(super) fn end_line() {
    // Ignore the error, because a lost line is harmless.
    let _ = writeln!(io::stderr());
}

/// Prints the exit code and the duration of the run, if standard error is a terminal.
pub(super) fn print_exit_code(code: i32, elapsed: Duration) {
    if io::stderr().is_terminal() {
        let seconds = elapsed.as_secs_f64();
        // Ignore the error, because a lost line is harmless.
        let _ = writeln!(anstream::stderr(), "{DIM}exit code {code}, {seconds:.1} s{DIM:#}");
    }
}

/// Output that was received from the script and is not written yet.
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

    /// Waits for output, for the closing of the screen or for [`TICK`]. Then takes the output that has arrived.
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

/// The writer of standard output, standard error and the line with the elapsed time.
struct Writer {
    stdout: Sink<io::Stdout>,
    stderr: Sink<io::Stderr>,
    opened: Instant,
    /// Whether the terminal can show a line with the elapsed time.
    has_clock: bool,
    is_clock_shown: bool,
    /// Whether the cursor of the terminal is at the start of a line.
    is_at_line_start: bool,
    /// The error that ended the writing, if any.
    error: Option<io::Error>,
}

/// An output stream, with a filter for control characters if it is a terminal.
struct Sink<W> {
    stream: W,
    /// The filter for control characters. `None` if the stream is not a terminal.
    visible: Option<VisibleBytes>,
    /// Whether the bytes written so far end without a line end.
    is_line_open: bool,
}

impl<W: Write + IsTerminal> Sink<W> {
    fn new(stream: W) -> Self {
        let visible = stream.is_terminal().then(VisibleBytes::default);
        Self { stream, visible, is_line_open: false }
    }

    /// Writes the bytes. On a terminal, control characters are made visible.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.is_line_open = !bytes.ends_with(b"\n");
        match &mut self.visible {
            Some(visible) => self.stream.write_all(visible.next(bytes).as_bytes())?,
            None => self.stream.write_all(bytes)?,
        }
        self.stream.flush()
    }

    /// If the output so far ends in the middle of a UTF-8 character, writes a replacement character. Returns whether a
    /// replacement character was written.
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
        // Do not show the clock line on a terminal that cannot clear a line (`TERM=dumb`). `NO_COLOR` does not hide the
        // clock line, because it only requests text without colours.
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
        // After Ctrl-C, `^C` is at the cursor, so the cursor is not at the start of a line. If the clock line is shown,
        // clearing it also clears `^C`.
        self.is_at_line_start &= !is_interrupted || self.is_clock_shown;
        self.clear_clock()?;
        if !stdout.is_empty() {
            self.stdout.write(stdout)?;
            if self.stdout.visible.is_some() {
                self.is_at_line_start = !self.stdout.is_line_open;
            }
        }
        if !stderr.is_empty() {
            self.stderr.write(stderr)?;
            if self.stderr.visible.is_some() {
                self.is_at_line_start = !self.stderr.is_line_open;
            }
        }
        if *is_closed {
            let is_cut_off = self.stdout.end()? | self.stderr.end()?;
            self.is_at_line_start &= !is_cut_off;
            // Start a new line, because the next output does not come from the script.
            if self.stderr.visible.is_some() && !self.is_at_line_start {
                self.stderr.write(b"\n")?;
            }
        }
        Ok(())
    }

    /// Shows the elapsed time, unless the cursor is within a line of the script's output.
    fn show_clock(&mut self) -> io::Result<()> {
        if !self.has_clock || !self.is_at_line_start {
            return Ok(());
        }
        let seconds = self.opened.elapsed().as_secs();
        let mut stderr = anstream::stderr();
        self.is_clock_shown = true;
        write!(stderr, "{DIM}running for {seconds} s{DIM:#}")?;
        // Write the carriage return to the stream itself, because `anstream` removes control characters if colours are
        // off.
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

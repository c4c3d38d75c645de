//! macOS: a run is one process in Seatbelt, which cannot fork and can execute nothing.
//!
//! ```text
//! supervisor   own session → scratch folder → profile → starts the launcher
//! launcher     own session → descriptors → rlimits → taskpolicy, which sets the memory limit → Python
//! Python       address space → Seatbelt → says so; only then is it sent the script
//! ```
//!
//! Python enters the sandbox by itself (`sandbox_init_with_parameters`, by `ctypes`), and not by
//! `sandbox-exec`: that would have to be allowed to execute `taskpolicy` and Python, and so would the
//! script then, and each exec resets the memory limit. Until then it has loaded nothing but itself and its
//! standard library, as when it is asked what it is (`executor/probe.rs`).
//!
//! None of this was ever run on macOS. Tests run it on Linux with stand-ins for Apple's parts
//! (`tests/macos`).

#[cfg(not(all(target_os = "linux", not(qwed_portable))))]
pub(super) mod launcher;
pub(super) mod profile;

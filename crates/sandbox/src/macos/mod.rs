//! Confines a run on macOS. The run is one process in Seatbelt, which can neither fork nor execute a program.
//!
//! ```text
//! supervisor   own session → scratch folder → profile → starts the launcher
//! launcher     own session → descriptors → rlimits → taskpolicy, which sets the memory limit → Python
//! Python       address space → Seatbelt → reports it; only then receives the script
//! ```
//!
//! Python enters the sandbox itself (`sandbox_init_with_parameters`, through `ctypes`) instead of being started by
//! `sandbox-exec`. `sandbox-exec` would need a profile that allows executing `taskpolicy` and Python. Then the script
//! could execute them too, and each exec would reset the memory limit. Before Python enters the sandbox, it loads
//! only itself and its standard library. The same is true when the server probes Python (`executor/probe.rs`).
//!
//! This code has never been run on macOS. Tests run it on Linux with replacements for Apple's files (`tests/macos`).

#[cfg(not(all(target_os = "linux", not(qwed_portable))))]
pub(super) mod launcher;
pub(super) mod profile;

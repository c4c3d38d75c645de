//! Turns off address space randomization, so that addresses are the same in each run of a program (`personality(2)`).
//! This module never decides which runs need the same addresses.

use nix::sys::personality::{self, Persona};

/// Turns off address space randomization for the programs that this thread executes or starts.
pub(crate) fn fix() -> nix::Result<()> {
    personality::set(personality::get()? | Persona::ADDR_NO_RANDOMIZE).map(drop)
}

/// Returns whether this process can turn off address space randomization. The seccomp filter of a container may forbid
/// it.
pub fn can_fix_addresses() -> bool {
    // Use a new thread, because each thread has its own personality.
    std::thread::spawn(|| fix().is_ok()).join().unwrap_or_default()
}

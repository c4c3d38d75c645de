//! Turns off address space randomization, so that addresses are the same in each run of a program (`personality(2)`).
//! It never decides which runs need that.

use nix::sys::personality::{self, Persona};

/// Makes the addresses of the programs that this thread executes or starts the same each time.
pub(crate) fn fix() -> nix::Result<()> {
    personality::set(personality::get()? | Persona::ADDR_NO_RANDOMIZE).map(drop)
}

/// Returns whether the kernel allows it, by a test. Seccomp filters of containers may not.
pub fn can_fix_addresses() -> bool {
    // Each thread has its own personality, so the test changes nothing else.
    std::thread::spawn(|| fix().is_ok()).join().unwrap_or_default()
}

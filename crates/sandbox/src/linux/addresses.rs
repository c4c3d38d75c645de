//! Addresses that are the same in each run of a program: `personality(2)`.

use nix::sys::personality::{self, Persona};

/// Has the programs that this thread becomes or starts have the same addresses each time.
pub(crate) fn fix() -> nix::Result<()> {
    personality::set(personality::get()? | Persona::ADDR_NO_RANDOMIZE).map(drop)
}

/// Tries out whether the kernel allows it: filters of containers may not.
pub fn can_fix_addresses() -> bool {
    // A thread has a personality of its own, which ends with it.
    std::thread::spawn(|| fix().is_ok()).join().unwrap_or_default()
}

//! Capabilities: none, and no way to get one (`capabilities(7)`).

use nix::sys::prctl;
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, capability_is_in_bounding_set,
    clear_ambient_capability_set, configure_capability_in_ambient_set,
    remove_capability_from_bounding_set, set_capabilities,
};

use super::{LaunchError, OsError};

/// Takes every capability out of the bounding set, so that no program that is executed later can
/// bring one, if this process may (`CAP_SETPCAP`). It keeps those that it has.
pub(in crate::sandbox) fn empty_bounding_set() -> Result<(), LaunchError> {
    let own = capabilities(None).map_err(failed)?;
    if !own.effective.contains(CapabilitySet::SETPCAP) {
        // An ordinary user, who has none to give up and with no_new_privs gets none.
        return Ok(());
    }
    for capability in CapabilitySet::all().iter() {
        // A kernel that does not know the capability has no place for it in the set.
        if capability_is_in_bounding_set(capability).unwrap_or(false) {
            remove_capability_from_bounding_set(capability).map_err(failed)?;
        }
    }
    Ok(())
}

/// Checks that this process may end the processes of other users.
pub(in crate::sandbox) fn require_kill() -> Result<(), LaunchError> {
    let own = capabilities(None).map_err(failed)?;
    if own.effective.contains(CapabilitySet::KILL) {
        Ok(())
    } else {
        Err(LaunchError::DropIdentity(nix::Error::EPERM.into()))
    }
}

/// Keeps the right to make namespaces and mounts in this process's own user namespace, also when
/// it executes a program, and gives up every other one.
pub(in crate::sandbox) fn keep_only_namespaces() -> Result<(), LaunchError> {
    let kept = CapabilitySet::SYS_ADMIN;
    let own = capabilities(None).map_err(failed)?;
    // Before the bounding set is empty: what is not in it cannot become inheritable.
    set_capabilities(None, CapabilitySets { inheritable: kept, ..own }).map_err(failed)?;
    // A program that is no set-user-id program of root has none but these after execve(2).
    configure_capability_in_ambient_set(kept, true).map_err(failed)?;
    empty_bounding_set()?;
    let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: kept };
    set_capabilities(None, sets).map_err(failed)?;
    prctl::set_no_new_privs().map_err(|error| LaunchError::ForbidPrivileges(error.into()))
}

/// Gives up every capability for good.
pub(in crate::sandbox) fn drop_all() -> Result<(), LaunchError> {
    empty_bounding_set()?;
    clear_ambient_capability_set().map_err(failed)?;
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, none).map_err(failed)?;
    if capabilities(None).map_err(failed)? != none {
        return Err(LaunchError::DropCapabilities(nix::Error::EPERM.into()));
    }
    prctl::set_no_new_privs().map_err(|error| LaunchError::ForbidPrivileges(error.into()))
}

fn failed(error: rustix::io::Errno) -> LaunchError {
    LaunchError::DropCapabilities(OsError::from(std::io::Error::from(error)))
}

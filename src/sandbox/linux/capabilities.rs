//! Capabilities: none, and no way to get one (`capabilities(7)`).

use nix::sys::prctl;
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, capability_is_in_bounding_set,
    clear_ambient_capability_set, remove_capability_from_bounding_set, set_capabilities,
};

use super::{LaunchError, OsError};

/// Takes every capability out of the bounding set, so that no program that is executed later can
/// bring one, if this process may (`CAP_SETPCAP`). It keeps those that it has.
pub(super) fn empty_bounding_set() -> Result<(), LaunchError> {
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

/// Whether this process may end the processes of other users.
pub(super) fn require_kill() -> Result<(), LaunchError> {
    let own = capabilities(None).map_err(failed)?;
    if own.effective.contains(CapabilitySet::KILL) {
        Ok(())
    } else {
        Err(LaunchError::DropIdentity(nix::Error::EPERM.into()))
    }
}

/// Gives up every capability for good.
pub(super) fn drop_all() -> Result<(), LaunchError> {
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

//! Landlock: which files may be opened, and for what (`landlock(7)`).

use std::fs;
use std::path::Path;

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd,
    Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};

use super::{DEVICES, LaunchError, Plan, SHARED_MEMORY, Tier};

/// The ABIs whose rights are known here, newest first. A newer kernel's further rights are not
/// restricted until somebody has looked at what they would break.
const ABIS: [(u8, ABI); 6] =
    [(6, ABI::V6), (5, ABI::V5), (4, ABI::V4), (3, ABI::V3), (2, ABI::V2), (1, ABI::V1)];

/// The newest ABI that this kernel has, of those that are known here; 0 is none.
pub(crate) fn supported_abi() -> u8 {
    let mut supported = ABIS.into_iter().filter(|(_, abi)| create(*abi).is_ok());
    supported.next().map_or(0, |(number, _)| number)
}

/// Restricts this process, for good, to what the plan lists and to its own folders.
pub(super) fn restrict(plan: &Plan, scratch: &Path) -> Result<(), LaunchError> {
    if plan.tier.landlock_abi_min() == 0 {
        return Ok(());
    }
    let known = ABIS.into_iter().find(|(number, _)| *number == plan.landlock_abi);
    let Some((_, abi)) = known.filter(|(abi, _)| *abi >= plan.tier.landlock_abi_min()) else {
        return Err(LaunchError::RestrictFiles("the kernel's version is too old".to_owned()));
    };
    let failed = |error: RulesetError| LaunchError::RestrictFiles(error.to_string());
    let mut rules = create(abi).map_err(failed)?;
    for path in &plan.readable {
        rules = allow(rules, path, AccessFs::ReadFile | AccessFs::ReadDir)?;
    }
    for path in &plan.executable {
        rules = allow(rules, path, AccessFs::ReadFile | AccessFs::Execute)?;
    }
    for (device, is_writable) in DEVICES {
        let mut access = BitFlags::from(AccessFs::ReadFile);
        if is_writable {
            access |= AccessFs::WriteFile;
        }
        rules = allow(rules, Path::new(device), access)?;
    }
    rules = allow(rules, scratch, own_folder(abi))?;
    if plan.tier == Tier::T3 {
        rules = allow(rules, Path::new(SHARED_MEMORY), own_folder(abi))?;
    }
    let status = rules.restrict_self().map_err(failed)?;
    if status.ruleset == RulesetStatus::FullyEnforced {
        Ok(())
    } else {
        Err(LaunchError::RestrictFiles("not everything is enforced".to_owned()))
    }
}

/// Everything that this ABI can restrict, none of it allowed yet. Fails if the kernel lacks any of
/// it.
fn create(abi: ABI) -> Result<RulesetCreated, RulesetError> {
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(abi))?;
    if abi >= ABI::V4 {
        rules = rules.handle_access(AccessNet::from_all(abi))?;
    }
    if abi >= ABI::V6 {
        rules = rules.scope(Scope::from_all(abi))?;
    }
    rules.create()
}

/// The rights in a folder of the run's own: files, folders and links; no devices, sockets or
/// pipes, nothing to execute.
fn own_folder(abi: ABI) -> BitFlags<AccessFs> {
    let rights = AccessFs::ReadFile
        | AccessFs::ReadDir
        | AccessFs::WriteFile
        | AccessFs::RemoveFile
        | AccessFs::RemoveDir
        | AccessFs::MakeReg
        | AccessFs::MakeDir
        | AccessFs::MakeSym
        | AccessFs::Refer
        | AccessFs::Truncate;
    // What the ABI does not know is not restricted in the first place.
    rights & AccessFs::from_all(abi)
}

fn allow(
    rules: RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, LaunchError> {
    let failed = |error: &dyn std::fmt::Display| LaunchError::RestrictFiles(error.to_string());
    let is_folder = fs::metadata(path).map_err(|error| failed(&error))?.is_dir();
    // A right that only folders have is an error on a file, with which the whole rule is lost.
    let of_files = AccessFs::ReadFile
        | AccessFs::WriteFile
        | AccessFs::Execute
        | AccessFs::Truncate
        | AccessFs::IoctlDev;
    let access = if is_folder { access } else { access & of_files };
    let path = PathFd::new(path).map_err(|error| failed(&error))?;
    rules.add_rule(PathBeneath::new(path, access)).map_err(|error| failed(&error))
}

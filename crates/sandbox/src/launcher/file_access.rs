//! Restricts access to files with Landlock (`landlock(7)`). It never decides which paths are readable; the plan lists
//! them.

use std::fs;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd,
    Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};

use serde::Serialize;

use super::super::linux::{DEVICES, SHARED_MEMORY};
use super::super::{LaunchError, Plan, Tier};

/// The Landlock ABIs that this module knows, newest first. Rights that a newer kernel adds stay unrestricted until a
/// person has checked which programs they would break.
const ABIS: [(u8, ABI); 6] =
    [(6, ABI::V6), (5, ABI::V5), (4, ABI::V4), (3, ABI::V3), (2, ABI::V2), (1, ABI::V1)];

/// Returns the newest known ABI that this kernel supports, or 0 if it supports none.
pub fn supported_abi() -> u8 {
    let mut supported = ABIS.into_iter().filter(|(_, abi)| create(*abi).is_ok());
    supported.next().map_or(0, |(number, _)| number)
}

/// Restricts this process, irrevocably, to the paths of the plan and to its own folders.
pub(super) fn restrict(plan: &Plan, scratch: &Path) -> Result<(), LaunchError> {
    if plan.tier.landlock_abi_min() == 0 {
        return Ok(());
    }
    let abi = abi(plan)?;
    let failed = |error: RulesetError| LaunchError::RestrictFiles(error.to_string());
    let mut rules = create(abi).map_err(failed)?;
    for (path, access) in allowed(plan, scratch, abi)? {
        let path = PathFd::new(path).map_err(|error| failed_at(&error))?;
        rules = rules.add_rule(PathBeneath::new(path, access)).map_err(failed)?;
    }
    let status = rules.restrict_self().map_err(failed)?;
    if status.ruleset == RulesetStatus::FullyEnforced {
        Ok(())
    } else {
        Err(LaunchError::RestrictFiles("not everything is enforced".to_owned()))
    }
}

/// Returns the same restriction as the numbers that the system calls take, for a process that does not run our code. It
/// allows no execution.
pub(super) fn ruleset(plan: &Plan, scratch: &Path) -> Result<RawRuleset, LaunchError> {
    let abi = abi(plan)?;
    let plan = Plan { executable: Vec::new(), ..plan.clone() };
    let network = if abi >= ABI::V4 { AccessNet::from_all(abi).bits() } else { 0 };
    let scoped = if abi >= ABI::V6 { Scope::from_all(abi).bits() } else { 0 };
    let rules = allowed(&plan, scratch, abi)?;
    Ok(RawRuleset {
        // The fields of `struct landlock_ruleset_attr`. A kernel with an older ABI takes only the first ones.
        handled: [AccessFs::from_all(abi).bits(), network, scoped],
        handled_count: if abi >= ABI::V6 {
            3
        } else if abi >= ABI::V4 {
            2
        } else {
            1
        },
        rules: rules.into_iter().map(|(path, access)| (path, access.bits())).collect(),
    })
}

/// A ruleset as the system calls take it (`landlock(7)`).
#[derive(Debug, Serialize)]
pub(super) struct RawRuleset {
    /// The restricted rights: files, network, scopes.
    handled: [u64; 3],
    /// The number of entries of `handled` that the kernel knows.
    handled_count: usize,
    /// Each path, and the rights that apply to it and everything below it.
    rules: Vec<(PathBuf, u64)>,
}

fn abi(plan: &Plan) -> Result<ABI, LaunchError> {
    let known = ABIS.into_iter().find(|(number, _)| *number == plan.landlock_abi);
    match known.filter(|(abi, _)| *abi >= plan.tier.landlock_abi_min()) {
        Some((_, abi)) => Ok(abi),
        None => Err(failed_at(&"the kernel's version is too old")),
    }
}

/// Returns the rights of a run to files. All other access is denied.
fn allowed(
    plan: &Plan,
    scratch: &Path,
    abi: ABI,
) -> Result<Vec<(PathBuf, BitFlags<AccessFs>)>, LaunchError> {
    let mut rules = Vec::new();
    for path in &plan.readable {
        rules.push((path.clone(), AccessFs::ReadFile | AccessFs::ReadDir));
    }
    for path in &plan.executable {
        rules.push((path.clone(), AccessFs::ReadFile | AccessFs::Execute));
    }
    for (device, is_writable) in DEVICES {
        let mut access = BitFlags::from(AccessFs::ReadFile);
        if is_writable {
            access |= AccessFs::WriteFile;
        }
        rules.push((device.into(), access));
    }
    if let Some(artifacts) = &plan.artifacts {
        // Artifacts outlive the run, so they must not contain symlinks: a later reader would follow them elsewhere.
        rules.push((
            artifacts.path.clone(),
            own_folder(abi) & !(AccessFs::MakeSym | AccessFs::Refer),
        ));
    }
    rules.push((scratch.to_owned(), own_folder(abi)));
    if plan.tier == Tier::T3 {
        rules.push((SHARED_MEMORY.into(), own_folder(abi)));
    }
    for (path, access) in &mut rules {
        let is_folder = fs::metadata(path).map_err(|error| failed_at(&error))?.is_dir();
        if !is_folder {
            // Landlock rejects a rule that gives a file a right for folders.
            *access &= AccessFs::ReadFile
                | AccessFs::WriteFile
                | AccessFs::Execute
                | AccessFs::Truncate
                | AccessFs::IoctlDev;
        }
    }
    Ok(rules)
}

fn failed_at(error: &dyn std::fmt::Display) -> LaunchError {
    LaunchError::RestrictFiles(error.to_string())
}

/// Creates a ruleset that restricts everything that this ABI can restrict, and allows nothing yet. Fails if the kernel
/// lacks any of these rights.
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

/// Returns the rights in a folder of the run's own: files, folders and symlinks, but no devices, sockets or pipes, and
/// no execution.
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
    // Rights unknown to the ABI are not restricted anyway.
    rights & AccessFs::from_all(abi)
}

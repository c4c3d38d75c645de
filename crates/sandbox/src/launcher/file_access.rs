//! Landlock: which files may be opened, and for what (`landlock(7)`).

use std::fs;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd,
    Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};

use serde::Serialize;

use super::super::linux::{DEVICES, SHARED_MEMORY};
use super::super::{LaunchError, Plan, Tier};

/// The ABIs whose rights are known here, newest first. A newer kernel's further rights are not
/// restricted until somebody has looked at what they would break.
const ABIS: [(u8, ABI); 6] =
    [(6, ABI::V6), (5, ABI::V5), (4, ABI::V4), (3, ABI::V3), (2, ABI::V2), (1, ABI::V1)];

/// Returns the newest ABI that this kernel has, of those that are known here; 0 is none.
pub fn supported_abi() -> u8 {
    let mut supported = ABIS.into_iter().filter(|(_, abi)| create(*abi).is_ok());
    supported.next().map_or(0, |(number, _)| number)
}

/// Restricts this process, for good, to what the plan lists and to its own folders.
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

/// Returns the same restriction, as the numbers that the system calls take, for a process that is
/// not ours. Nothing may be executed.
pub(super) fn ruleset(plan: &Plan, scratch: &Path) -> Result<RawRuleset, LaunchError> {
    let abi = abi(plan)?;
    let plan = Plan { executable: Vec::new(), ..plan.clone() };
    let network = if abi >= ABI::V4 { AccessNet::from_all(abi).bits() } else { 0 };
    let scoped = if abi >= ABI::V6 { Scope::from_all(abi).bits() } else { 0 };
    let rules = allowed(&plan, scratch, abi)?;
    Ok(RawRuleset {
        // struct landlock_ruleset_attr; a kernel of an older ABI takes its start.
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
    /// Rights over files and over the network, and scopes: what is restricted.
    handled: [u64; 3],
    /// The count of those that the kernel knows.
    handled_count: usize,
    /// Each path with the rights that it and everything below it has.
    rules: Vec<(PathBuf, u64)>,
}

fn abi(plan: &Plan) -> Result<ABI, LaunchError> {
    let known = ABIS.into_iter().find(|(number, _)| *number == plan.landlock_abi);
    match known.filter(|(abi, _)| *abi >= plan.tier.landlock_abi_min()) {
        Some((_, abi)) => Ok(abi),
        None => Err(failed_at(&"the kernel's version is too old")),
    }
}

/// Returns a run's rights to files; everything else is denied.
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
        // What outlives the run has no links: whoever looks at it later must not be led elsewhere.
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
            // A right that only folders have is an error on a file, with which the whole rule is
            // lost.
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

/// Creates a ruleset of everything that this ABI can restrict, none of it allowed yet. Fails if the
/// kernel lacks any of it.
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

/// Returns the rights in a folder of the run's own: files, folders and links; no devices, sockets
/// or pipes, nothing to execute.
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

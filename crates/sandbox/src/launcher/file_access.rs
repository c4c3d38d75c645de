//! Restricts access to files with Landlock (`landlock(7)`), and with newer ABIs also network ports, signals and
//! abstract sockets. This module never decides which paths are readable; the plan lists them.

use std::fs;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd,
    Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};

use serde::Serialize;

use super::super::linux::{DEVICES, SHARED_MEMORY};
use super::super::{LaunchError, Plan, Tier};

/// The Landlock ABIs that this module supports, newest first. A newer ABI is added only after a developer has checked
/// which programs its new restrictions would break.
const ABIS: [(u8, ABI); 6] =
    [(6, ABI::V6), (5, ABI::V5), (4, ABI::V4), (3, ABI::V3), (2, ABI::V2), (1, ABI::V1)];

/// Returns the newest ABI that both this module and this kernel support, or 0 if they share no ABI.
pub fn supported_abi() -> u8 {
    let mut supported = ABIS.into_iter().filter(|(_, abi)| create(*abi).is_ok());
    supported.next().map_or(0, |(number, _)| number)
}

/// Applies Landlock to this process, irrevocably, unless the tier of `plan` has no Landlock. Only the paths in `plan`,
/// the run's own folders such as `scratch`, and a `library` that the run loads stay accessible. Depending on the kernel,
/// also denies the network, and signals and abstract sockets to other processes.
pub(super) fn restrict(
    plan: &Plan,
    scratch: &Path,
    library: Option<&Path>,
) -> Result<(), LaunchError> {
    if plan.tier.landlock_abi_min() == 0 {
        return Ok(());
    }
    let abi = abi(plan)?;
    let failed = |error: RulesetError| LaunchError::RestrictFiles(error.to_string());
    let mut rules = create(abi).map_err(failed)?;
    let library = library.map(|path| (path.to_owned(), AccessFs::ReadFile.into()));
    for (path, access) in allowed(plan, scratch, abi)?.into_iter().chain(library) {
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

/// Returns the same restriction as [`restrict`], as the numbers that the Landlock system calls take. The children of a
/// fork server need the numbers, because they run no Rust code. Unlike [`restrict`], the ruleset forbids executing any
/// program.
pub(super) fn ruleset(plan: &Plan, scratch: &Path) -> Result<RawRuleset, LaunchError> {
    let abi = abi(plan)?;
    let plan = Plan { executable: Vec::new(), ..plan.clone() };
    let network = if abi >= ABI::V4 { AccessNet::from_all(abi).bits() } else { 0 };
    let scoped = if abi >= ABI::V6 { Scope::from_all(abi).bits() } else { 0 };
    let rules = allowed(&plan, scratch, abi)?;
    Ok(RawRuleset {
        // The fields of `struct landlock_ruleset_attr`. A kernel with an older ABI accepts only the first fields.
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
    /// The bit masks of the restrictions, in this order: rights to files, rights to the network, scopes.
    handled: [u64; 3],
    /// The number of entries of `handled` that the kernel accepts.
    handled_count: usize,
    /// Each path, and the rights to the path and to everything below the path.
    rules: Vec<(PathBuf, u64)>,
}

fn abi(plan: &Plan) -> Result<ABI, LaunchError> {
    let known = ABIS.into_iter().find(|(number, _)| *number == plan.landlock_abi);
    match known.filter(|(abi, _)| *abi >= plan.tier.landlock_abi_min()) {
        Some((_, abi)) => Ok(abi),
        None => Err(failed_at(&"the kernel's version is too old")),
    }
}

/// Returns each path that a run may access, with the run's rights to it. Landlock denies all other access.
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
        // Forbid symlinks, because artifacts outlive the run: a later reader could follow a symlink out of the
        // folder.
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
            // Remove the rights that only folders have, because Landlock rejects them in a rule for a file.
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
/// lacks one of the restrictions.
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

/// Returns a run's rights to one of its own folders. The run may create and change files, folders and symlinks. It is
/// not allowed to create devices, sockets or pipes, or to execute files.
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
    // Remove the rights that the ABI does not contain. Landlock does not restrict these rights, so they need no rule.
    rights & AccessFs::from_all(abi)
}

//! Tests of plans: the readable paths, the limits and the path of the scratch folder.

use super::*;

fn reach() -> Reach {
    Reach {
        program: std::env::current_exe().unwrap(),
        loader: Some("/lib64/ld-linux-x86-64.so.2".into()),
        paths: vec!["/missing/lib".into(), "/".into(), "/proc/self".into()],
    }
}

#[test]
fn what_the_interpreter_lists_is_taken_where_it_can_be() {
    let plan = Plan::new(Tier::T3, 6, &reach(), &[], 512).unwrap();
    assert!(plan.readable.contains(&plan.program_file), "{plan:?}");
    assert!(!plan.readable.iter().any(|path| path.starts_with("/proc")), "{plan:?}");
    assert!(!plan.readable.contains(&"/".into()), "{plan:?}");
    assert!(plan.executable.contains(&plan.program_file), "{plan:?}");
    assert_eq!(plan.limits.memory_bytes, 512 * MIB);
    assert_eq!(plan.limits.address_space_bytes, 4096 * MIB);
}

#[test]
fn what_the_admin_lists_has_to_be_there_and_to_be_a_folder_of_files() {
    let plan = |path: &str| Plan::new(Tier::T3, 6, &reach(), &[path.into()], 512);
    assert!(plan("/etc").unwrap().readable.contains(&"/etc".into()));
    for (path, expected) in [
        ("/missing", PlanError::ReadPathMissing("/missing".into())),
        ("relative", PlanError::ReadPathRelative("relative".into())),
        // This path exists, because tests run in the crate's folder. It is refused because it is relative.
        ("src", PlanError::ReadPathRelative("src".into())),
        ("/", PlanError::ReadPathRefused("/".into())),
        ("/proc", PlanError::ReadPathRefused("/proc".into())),
        ("/dev/../dev/shm", PlanError::ReadPathRefused("/dev/../dev/shm".into())),
    ] {
        assert_eq!(plan(path).unwrap_err(), expected, "{path}");
    }
}

#[test]
fn every_path_and_device_of_the_system_has_a_reason() {
    for row in SYSTEM_PATHS {
        assert!(row.path.starts_with('/') && row.why.len() > 5, "{}", row.path);
    }
}

#[test]
fn the_scratch_folder_is_where_nothing_readable_is() {
    let readable = |paths: &[&str]| paths.iter().map(PathBuf::from).collect::<Vec<_>>();
    for (paths, links, folders, place) in [
        (&["/usr/lib"][..], &[][..], &[][..], Some("/tmp")),
        (&["/tmp/data"], &[], &[], Some("/scratch")),
        (&["/tmp"], &[], &[], Some("/scratch")),
        (&["/usr/lib"], &["/tmp/link"], &[], Some("/scratch")),
        (&["/usr/lib"], &[], &["/tmp/through"], Some("/scratch")),
        (&["/tmp/data", "/scratch/data"], &[], &[], Some("/run/qwed-mcp/scratch")),
        (&["/tmp/data", "/scratch/data", "/run"], &[], &[], None),
    ] {
        let links: Vec<_> = readable(links).into_iter().map(|link| (link, "/".into())).collect();
        let found = scratch_place(&readable(paths), &links, &readable(folders));
        assert_eq!(found, place.map(PathBuf::from), "{paths:?} {links:?} {folders:?}");
    }
}

fn plan(tier: Tier) -> Plan {
    Plan::new(tier, 6, &reach(), &[], 512).unwrap()
}

#[test]
fn what_every_interpreter_needs_is_readable() {
    let plan = plan(Tier::T3);
    let mut there = 0;
    for row in SYSTEM_PATHS {
        let Ok(real) = fs::canonicalize(row.path) else { continue };
        assert!(plan.readable.iter().any(|path| real.starts_with(path)), "{}", row.path);
        there += 1;
    }
    assert!(there > 3, "{there}");
    assert!(!plan.is_isolated && plan.programs == Programs::None);
    let limits = |memory_mb| Limits::with_memory(memory_mb).address_space_bytes / MIB;
    assert_eq!([limits(1), limits(2048), limits(2049), limits(5000)], [4096, 4096, 4098, 10_000]);
    assert_eq!(plan.limits.file_bytes, 64 * MIB);
    assert_eq!(plan.limits.shared_memory_bytes, 64 * MIB);
    assert_eq!(plan.limits.scratch_bytes, 128 * MIB);
}

#[test]
fn a_name_that_is_no_text_is_not_passed_on() {
    use std::os::unix::ffi::OsStringExt as _;

    let path = PathBuf::from(std::ffi::OsString::from_vec(b"/etc/\xff".to_vec()));
    let plan = Plan::new(Tier::T3, 6, &reach(), std::slice::from_ref(&path), 512);
    assert_eq!(plan.unwrap_err(), PlanError::ReadPathNotText(path));
}

#[test]
fn only_a_script_between_no_sandbox_and_namespaces_has_to_stay_one_process() {
    let expected = [(Tier::Off, false), (Tier::T1, true), (Tier::T2, true), (Tier::T3, false)];
    for (tier, is_one) in expected {
        let mut plan = plan(tier);
        assert_eq!(plan.is_one_process(), is_one, "{tier:?}");
        plan.programs = Programs::Executable;
        assert!(!plan.is_one_process(), "{tier:?}");
    }
}

#[test]
fn the_folder_of_a_project_is_apart_from_all_that_is_readable() {
    let project = |folder: &str, tier: Tier, bytes_max: u64| {
        let mut plan = plan(tier);
        plan.readable = vec!["/data/in/it".into(), "/usr".into()];
        plan.folders = vec!["/through".into()];
        plan.links = vec![("/links/one".into(), "/usr".into())];
        plan.scratch = "/tmp".into();
        plan.for_project(ArtifactFolder { path: folder.into(), bytes_max, inodes_max: 9 })
    };
    for folder in [
        "/data",
        "/data/in/it",
        "/data/in/it/too",
        "/",
        "/through",
        "/through/x",
        "/links/one",
        "/links",
        "relative",
    ] {
        assert!(project(folder, Tier::T3, 1).is_none(), "{folder}");
    }
    let plan = project("/tmp/out", Tier::T3, 1).unwrap();
    assert_eq!(plan.artifacts.as_ref().unwrap().path, PathBuf::from("/tmp/out"));
    assert!(plan.programs == Programs::Executable);
    // The scratch folder must not be `/tmp`, because it would contain the artifact folder.
    assert_eq!(plan.scratch, PathBuf::from("/scratch"));
    assert_eq!(plan.limits.file_bytes, 64 * MIB);
    // Below tier 3 the artifact folder is not a separate file system, so only the maximum file size limits it.
    for tier in [Tier::T1, Tier::T2] {
        assert_eq!(project("/data/out", tier, 7).unwrap().limits.file_bytes, 7);
        let plan = project("/data/out", tier, 1 << 40).unwrap();
        assert_eq!(plan.limits.file_bytes, 64 * MIB);
    }
}

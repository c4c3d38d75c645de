use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use tempfile::TempDir;

use super::*;
use crate::governance::ReadTool;

fn error(text: &str) -> String {
    Policy::parse(text).expect_err(text).to_string()
}

#[test]
fn the_documented_example_means_what_it_says() {
    let policy = Policy::parse(include_str!("../../../examples/policy.toml")).unwrap();
    let expected = Policy {
        allowlist: BTreeSet::from(GovernedTool::ALL),
        scripts_need_token: false,
        sandbox: SandboxPolicy {
            enabled: true,
            timeout: Duration::from_secs(300),
            memory_limit_mb: 1024,
            allowed_paths: vec!["/srv/data".into()],
            env_whitelist: vec!["LANG".to_owned(), "TZ".to_owned()],
        },
        budget: BudgetPolicy {
            elapsed: Some(Duration::from_secs(300)),
            attempts_max: 1,
            runs_per_day: Some(200),
            output_bytes_max: 8 << 20,
            artifact_bytes_max: 64 << 20,
        },
        workspace_root: Some("/srv/project".into()),
        judge: JudgePolicy {
            tests: Some("/srv/judge/tests".into()),
            list: Some("/srv/judge/tests.json".into()),
            require: Some(Level::Isolated),
            has_control: false,
        },
        retention: Retention {
            age: Some(Duration::from_secs(30 * 24 * 3600)),
            total_bytes: Some(1 << 30),
        },
        checkpoint: Some(CheckpointPolicy {
            file: "/mnt/elsewhere/qwed-mcp.checkpoints".into(),
            rows: 1000,
            interval: Duration::from_secs(60),
        }),
        sha256: policy.sha256.clone(),
    };
    assert_eq!(policy, expected);
}

#[test]
fn the_example_names_every_key() {
    let text = include_str!("../../../examples/policy.toml");
    for (section, keys) in SECTIONS {
        assert!(text.contains(&format!("[{section}]")), "{section}");
        for key in keys {
            assert!(text.lines().any(|line| line.starts_with(&format!("{key} = "))), "{key}");
        }
    }
}

#[test]
fn everything_has_a_default() {
    let expected = Policy {
        allowlist: BTreeSet::new(),
        scripts_need_token: false,
        sandbox: SandboxPolicy {
            enabled: true,
            timeout: Duration::from_secs(300),
            memory_limit_mb: 1024,
            allowed_paths: Vec::new(),
            env_whitelist: Vec::new(),
        },
        budget: BudgetPolicy {
            elapsed: None,
            attempts_max: 1,
            runs_per_day: None,
            output_bytes_max: OUTPUT_BYTES_DEFAULT,
            artifact_bytes_max: ARTIFACT_BYTES_DEFAULT,
        },
        workspace_root: None,
        judge: JudgePolicy::default(),
        retention: Retention { age: None, total_bytes: None },
        checkpoint: None,
        sha256: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855".to_owned(),
    };
    assert_eq!(Policy::parse("").unwrap(), expected);
    for text in ["# nothing\n", "[tools]\nallowlist = []\n[workspace]\n"] {
        let policy = Policy::parse(text).unwrap();
        assert_ne!(policy.sha256, expected.sha256, "{text}");
        assert_eq!(Policy { sha256: expected.sha256.clone(), ..policy }, expected, "{text}");
    }
}

#[test]
fn toml_may_be_written_in_every_way() {
    let policy = Policy::parse(
        "tools.allowlist = ['run_pytest',\r\n 'get_evidence',]\r\n\
         sandbox = { timeout_s = 0x10, memory_limit_mb = 1_024, enabled = false }\n\
         budget.attempts_max = 0",
    )
    .unwrap();
    let tools =
        BTreeSet::from([GovernedTool::RunPytest, GovernedTool::Read(ReadTool::GetEvidence)]);
    assert_eq!(policy.allowlist, tools);
    assert_eq!(policy.sandbox.timeout, Duration::from_secs(16));
    assert_eq!(policy.sandbox.memory_limit_mb, 1024);
    assert!(!policy.sandbox.enabled);
    assert_eq!(policy.budget.attempts_max, 0);
}

#[test]
fn bounds_are_part_of_the_range() {
    for (section, key, min, max) in [
        ("sandbox", "timeout_s", 1, 3600),
        ("sandbox", "memory_limit_mb", 128, 1_048_576),
        ("budget", "elapsed_ms_max", 1, u64::MAX),
        ("budget", "attempts_max", 0, u64::MAX),
        ("budget", "output_bytes_max", 1, 1 << 30),
        ("budget", "artifact_bytes_max", 1, u64::MAX),
        ("artifacts", "retention_days", 1, 36_500),
        ("artifacts", "total_mb_max", 1, 1 << 40),
        ("audit", "checkpoint_rows", 1, u64::MAX),
        ("audit", "checkpoint_seconds", 1, 86_400),
    ] {
        let text = |value: u128| format!("[{section}]\n\n{key} = {value}");
        let range = match max {
            u64::MAX => format!("of at least {min}"),
            _ => format!("from {min} to {max}"),
        };
        let expected = format!("line 3: {section}.{key} must be a whole number {range}");
        for inside in [min, max.min(u64::try_from(i64::MAX).unwrap())] {
            assert!(Policy::parse(&text(inside.into())).is_ok(), "{key} {inside}");
        }
        assert_eq!(error(&text(u128::from(max) + 1)), expected);
        assert_eq!(error(&format!("[{section}]\n\n{key} = -1")), expected);
        if let Some(below) = u128::from(min).checked_sub(1) {
            assert_eq!(error(&text(below)), expected);
        }
        for wrong in ["1.5", "'5'", "true", "[5]", "{}", "1979-05-27", "nan"] {
            assert_eq!(error(&format!("[{section}]\n\n{key} = {wrong}")), expected, "{wrong}");
        }
    }
}

#[test]
fn unknown_sections_and_keys_are_named_with_their_line() {
    let sections = "the sections are tools, sandbox, budget, workspace, judge, artifacts, audit";
    for (text, expected) in [
        ("\n[tool]", format!("line 2: tool is not known; {sections}")),
        ("timeout_s = 5", format!("line 1: timeout_s is not known; {sections}")),
        ("\n'' = 5", format!("line 2: a quoted or long key is not known; {sections}")),
        (
            "[tools]\nallow_list = []",
            "line 2: tools.allow_list is not known; the keys of tools are allowlist, scripts_need_token".to_owned(),
        ),
        (
            "[workspace]\n\"sec ret\" = 1",
            "line 2: workspace.a quoted or long key is not known; the keys of workspace are root"
                .to_owned(),
        ),
        ("tools = 3", "line 1: tools must be a section: [tools]".to_owned()),
        ("[[sandbox]]", "line 1: sandbox must be a section: [sandbox]".to_owned()),
    ] {
        assert_eq!(error(text), expected, "{text}");
    }
}

#[test]
fn values_are_named_by_their_key_and_their_line() {
    let list = "be a list of texts";
    let path = "be an absolute path without ..";
    let paths = "have absolute paths without .. only";
    let tools = "name these tools only: run_pytest, get_evidence, list_artifacts, \
                 get_artifact_content";
    let variables = "have names of variables only, such as LANG";
    for (section, lines, line, must) in [
        ("tools", "allowlist = 'run_pytest'", 2, list),
        ("tools", "allowlist = [\n'run_pytest',\n5]", 4, list),
        ("tools", "allowlist = [\n'run_pytest',\n'run_shell']", 4, tools),
        ("tools", "allowlist = ['RUN_PYTEST']", 2, tools),
        ("tools", "allowlist = ['run_pytest',\n'run_pytest']", 3, "name run_pytest once only"),
        ("sandbox", "enabled = 'true'", 2, "be true or false"),
        ("sandbox", "enabled = 1", 2, "be true or false"),
        ("sandbox", "allowed_paths = '/srv'", 2, list),
        ("sandbox", "allowed_paths = ['/srv',\n'data']", 3, paths),
        ("sandbox", "allowed_paths = ['']", 2, paths),
        ("sandbox", "allowed_paths = ['/srv/../etc']", 2, paths),
        ("sandbox", "allowed_paths = [\"/srv\\u0000\"]", 2, paths),
        ("sandbox", "env_whitelist = ['A B']", 2, variables),
        ("sandbox", "env_whitelist = ['']", 2, variables),
        ("sandbox", "env_whitelist = ['A=1']", 2, variables),
        ("sandbox", "env_whitelist = ['LANG',\n\n'1A']", 4, variables),
        ("workspace", "root = 'project'", 2, path),
        ("workspace", "root = ['/srv']", 2, path),
    ] {
        let (key, _) = lines.split_once(' ').unwrap();
        let found = error(&format!("[{section}]\n{lines}"));
        assert_eq!(found, format!("line {line}: {section}.{key} must {must}"));
    }
}

#[test]
fn variables_that_change_which_code_runs_are_refused() {
    for (forbidden, why) in FORBIDDEN_VARIABLES {
        let expected = format!("line 2: sandbox.env_whitelist must not have {forbidden}: {why}");
        let name = forbidden.replace('*', "X1");
        assert_eq!(error(&format!("[sandbox]\nenv_whitelist = ['{name}']")), expected);
    }
    for allowed in ["LANG", "LC_ALL", "PATH_INFO", "path", "_", "MY_PYTHON", "TERM"] {
        let text = format!("[sandbox]\nenv_whitelist = ['{allowed}']");
        assert_eq!(Policy::parse(&text).unwrap().sandbox.env_whitelist, [allowed]);
    }
}

#[test]
fn what_is_not_toml_is_told_by_line_without_its_content() {
    let deep = format!("[tools]\nallowlist = {}", "[".repeat(30_000));
    for (text, line) in [
        ("[tools]\nallowlist = [secret", 2),
        ("[tools\n", 1),
        ("\n\nsecret", 3),
        ("[tools]\nallowlist = []\nallowlist = []", 3),
        ("[tools]\n[tools]", 2),
        ("a = \"secret", 1),
        ("a = \u{1}", 1),
        (deep.as_str(), 2),
    ] {
        let shown: String = text.chars().take(40).collect();
        let found = error(text);
        assert!(found.starts_with(&format!("line {line}: not valid TOML: ")), "{shown}: {found}");
        assert!(!found.contains("secret") && found.len() < 200, "{found}");
    }
}

#[test]
fn a_large_file_is_refused() {
    let text = "#".repeat(POLICY_BYTES_MAX);
    assert!(Policy::parse(&text).is_ok());
    assert_eq!(error(&(text.clone() + "#")), "the policy file is larger than 64 KiB");

    let folder = TempDir::new().unwrap();
    let file = PolicyFile::new(folder.path().join("policy.toml"));
    for (bytes, expected) in [
        (text.repeat(100).into_bytes(), PolicyError::TooLarge),
        (vec![0xff; POLICY_BYTES_MAX * 2], PolicyError::TooLarge),
        (vec![0xff; 3], PolicyError::NotUtf8),
    ] {
        fs::write(file_path(&folder), bytes).unwrap();
        assert_eq!(file.current().unwrap_err(), expected);
    }
}

fn file_path(folder: &TempDir) -> PathBuf {
    folder.path().join("policy.toml")
}

fn timeout_of(file: &PolicyFile) -> Result<u64, PolicyError> {
    file.current().map(|policy| policy.sandbox.timeout.as_secs())
}

fn with_timeout(seconds: u64) -> String {
    format!("[sandbox]\ntimeout_s = {seconds}\n")
}

#[test]
fn every_change_is_seen_even_within_one_tick_of_the_clock() {
    let folder = TempDir::new().unwrap();
    let path = file_path(&folder);
    let file = PolicyFile::new(path.clone());
    // Change the file in place or replace it, always with the same length.
    for seconds in 100..400 {
        if seconds % 2 == 0 {
            fs::write(&path, with_timeout(seconds)).unwrap();
        } else {
            fs::write(folder.path().join("new"), with_timeout(seconds)).unwrap();
            fs::rename(folder.path().join("new"), &path).unwrap();
        }
        assert_eq!(timeout_of(&file), Ok(seconds));
    }
}

#[test]
fn a_broken_or_missing_file_is_an_error_until_it_is_mended() {
    let folder = TempDir::new().unwrap();
    let path = file_path(&folder);
    let file = PolicyFile::new(path.clone());
    let missing = PolicyError::Unreadable("No such file or directory".to_owned());
    assert_eq!(timeout_of(&file), Err(missing.clone()));
    assert_eq!(missing.to_string(), "the policy file cannot be read: No such file or directory");

    fs::write(&path, with_timeout(7)).unwrap();
    assert_eq!(timeout_of(&file), Ok(7));
    fs::write(&path, "[sandbox]\ntimeout_s = 0\n").unwrap();
    for _ in 0..3 {
        assert!(matches!(timeout_of(&file), Err(PolicyError::Value { line: 2, .. })));
    }
    fs::write(&path, with_timeout(8)).unwrap();
    assert_eq!(timeout_of(&file), Ok(8));
    fs::remove_file(&path).unwrap();
    assert_eq!(timeout_of(&file), Err(missing.clone()));
    fs::create_dir(&path).unwrap();
    assert_eq!(timeout_of(&file), Err(PolicyError::NotAFile));
    fs::remove_dir(&path).unwrap();
    nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert_eq!(timeout_of(&file), Err(PolicyError::NotAFile));
    fs::remove_file(&path).unwrap();
    fs::write(folder.path().join("other"), with_timeout(9)).unwrap();
    symlink("other", &path).unwrap();
    assert_eq!(timeout_of(&file), Ok(9));
}

#[test]
fn a_settled_file_is_read_once_and_again_when_it_changed() {
    let folder = TempDir::new().unwrap();
    let path = file_path(&folder);
    fs::write(&path, with_timeout(100)).unwrap();
    let file = PolicyFile::new(path.clone());
    std::thread::sleep(Duration::from_millis(2100));
    let first = file.current().unwrap();
    assert!(std::sync::Arc::ptr_eq(&first, &file.current().unwrap()));

    // Resetting the modification time of a file changes the file's `ctime`.
    let modified = fs::metadata(&path).unwrap().modified().unwrap();
    fs::write(&path, with_timeout(200)).unwrap();
    fs::File::options().write(true).open(&path).unwrap().set_modified(modified).unwrap();
    assert_eq!(timeout_of(&file), Ok(200));
    assert!(
        Command::new("touch").arg("-d").arg("2001-01-01").arg(&path).status().unwrap().success()
    );
    assert_eq!(timeout_of(&file), Ok(200));
}

#[test]
fn a_check_has_all_mistakes_in_the_order_of_their_lines() {
    let text = "\
[sandbox]
timeout_s = 0
memory_limit_mb = \"x\"
allowed_paths = [\"/srv\", \"data\", \"/a/../b\"]
env_whitelist = [\"LANG\", \"PATH\", \"a b\"]
timeout = 3
[tools]
allowlist = [
    \"run_pytest\",
    \"run_shell\",
]
[nonsense]
x = 1
[workspace]
root = \"~/project\"
";
    let mistakes: Vec<String> =
        Policy::check(text).unwrap_err().iter().map(ToString::to_string).collect();
    let starts = [
        "line 2: sandbox.timeout_s must be a whole number from 1 to 3600",
        "line 3: sandbox.memory_limit_mb must ",
        "line 4: sandbox.allowed_paths must have absolute paths",
        "line 4: sandbox.allowed_paths must have absolute paths",
        "line 5: sandbox.env_whitelist must not have PATH: ",
        "line 5: sandbox.env_whitelist must have names of variables only",
        "line 6: sandbox.timeout is not known; ",
        "line 10: tools.allowlist must name these tools only: ",
        "line 12: nonsense is not known; ",
        "line 15: workspace.root must be an absolute path",
    ];
    assert_eq!(mistakes.len(), starts.len(), "{mistakes:#?}");
    for (mistake, start) in mistakes.iter().zip(starts) {
        assert!(mistake.starts_with(start), "{mistake}, not {start}");
    }
    assert_eq!(error(text), mistakes[0], "a call is told the first");
    for text in ["[tools", "tools = 3", ""] {
        let mistakes = Policy::check(text).err().unwrap_or_default();
        assert_eq!(mistakes.len(), usize::from(!text.is_empty()), "{text}: {mistakes:?}");
    }
}

#[test]
fn a_policy_that_others_can_change_or_that_lies_in_the_workspace_is_none() {
    use std::os::unix::fs::PermissionsExt as _;

    let folder = TempDir::new().unwrap();
    let path = file_path(&folder);
    let file = PolicyFile::new(path.clone());
    fs::write(&path, with_timeout(7)).unwrap();
    let set_mode = |mode| fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    for mode in [0o666, 0o620, 0o602] {
        set_mode(mode);
        assert!(matches!(timeout_of(&file), Err(PolicyError::Unprotected(_))), "{mode:o}");
        set_mode(0o600);
        assert_eq!(timeout_of(&file), Ok(7));
    }
    let root = fs::canonicalize(folder.path()).unwrap();
    for (root, expected) in [
        (root.clone(), Err(PolicyError::InWorkspace)),
        (root.parent().unwrap().to_owned(), Err(PolicyError::InWorkspace)),
        (root.join("elsewhere"), Ok(300)),
    ] {
        fs::write(&path, format!("[workspace]\nroot = {root:?}\n")).unwrap();
        assert_eq!(timeout_of(&file), expected, "{}", root.display());
    }
}

#[test]
fn a_check_of_a_good_text_is_its_policy() {
    let text = with_timeout(9);
    assert_eq!(Policy::check(&text).unwrap(), Policy::parse(&text).unwrap());
    let long = format!("#{}", "x".repeat(POLICY_BYTES_MAX - 1));
    assert!(Policy::parse(&long).is_ok());
    assert_eq!(Policy::parse(&(long + "x")), Err(PolicyError::TooLarge));
}

#[test]
fn a_check_tells_what_a_call_would_meet() {
    use super::check::PolicyCheck;

    let folder = TempDir::new().unwrap();
    let beside = TempDir::new().unwrap();
    let path = file_path(&folder);
    let root = fs::canonicalize(beside.path()).unwrap();
    fs::write(root.join("file"), "").unwrap();
    let good = format!("[tools]\nallowlist = [\"run_pytest\"]\n[workspace]\nroot = {root:?}\n");
    let without = |line: &str| good.replace(line, "");
    let with = |more: &str| format!("{good}{more}");
    let allowed = |path: &str| with(&format!("[sandbox]\nallowed_paths = [\"{path}\"]\n"));
    for (text, would_reach_sandbox, expected) in [
        (good.clone(), true, None),
        (allowed("/usr"), true, None),
        (without("\"run_pytest\""), false, Some("tools.allowlist is empty")),
        (
            good.replace("run_pytest", "get_evidence"),
            false,
            Some("tools.allowlist does not have run_pytest"),
        ),
        (with("[sandbox]\nenabled = false\n"), false, Some("sandbox.enabled is false")),
        (with("[budget]\nattempts_max = 0\n"), false, Some("budget.attempts_max is 0")),
        (without(&format!("root = {root:?}\n")), false, Some("workspace.root is not set")),
        (good.replace("\"\n", "/missing\"\n"), false, Some("/missing: No such file or directory")),
        (good.replace("\"\n", "/file\"\n"), false, Some("is not a folder")),
        (allowed("/proc"), false, Some("/proc is never opened to tests")),
        (allowed("/missing"), false, Some("/missing does not exist")),
    ] {
        fs::write(&path, &text).unwrap();
        let check = PolicyCheck::of(&path).unwrap();
        assert!(check.policy.is_some() && check.mistakes.is_empty(), "{text}");
        assert_eq!(check.would_reach_sandbox(), would_reach_sandbox, "{text}");
        assert_eq!(check.warnings.len(), usize::from(expected.is_some()), "{:?}", check.warnings);
        assert!(expected.is_none_or(|expected| check.warnings[0].contains(expected)), "{text}");
    }
    let mistakes = |text: &str| {
        fs::write(&path, text).unwrap();
        let check = PolicyCheck::of(&path).unwrap();
        assert!(check.policy.is_none() && !check.would_reach_sandbox(), "{text}");
        check.mistakes
    };
    assert_eq!(mistakes("x = 1\ny = 2\n").len(), 2);
    let inside = format!("[workspace]\nroot = {:?}\n", fs::canonicalize(folder.path()).unwrap());
    assert_eq!(mistakes(&inside), [PolicyError::InWorkspace]);
    assert_eq!(mistakes(&" ".repeat(POLICY_BYTES_MAX + 1)), [PolicyError::TooLarge]);
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
    assert!(matches!(mistakes(&good)[..], [PolicyError::Unprotected(_)]));
    assert_eq!(mistakes("x = 1\n").len(), 2, "the mistake of the text, and that of the file");
    fs::remove_file(&path).unwrap();
    let unreadable = PolicyCheck::of(&path).unwrap_err().to_string();
    assert!(unreadable.starts_with(path.to_str().unwrap()), "{unreadable}");
    assert!(PolicyCheck::of(folder.path()).is_err(), "a folder");
    let relative = PolicyCheck::of("examples/policy.toml".as_ref()).unwrap();
    assert!(relative.warnings[0].starts_with("the path is relative"), "{:?}", relative.warnings);
}

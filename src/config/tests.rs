//! Tests how each variable is read from the environment.

use super::*;

fn read(variables: &[(&str, &str)]) -> (Settings, Vec<SettingsWarning>) {
    Settings::from_lookup(|name| {
        let (_, value) = variables.iter().find(|(key, _)| *key == name)?;
        Some(OsString::from(value))
    })
}

#[test]
fn an_empty_environment_gives_the_documented_defaults() {
    let (settings, warnings) = read(&[]);
    assert_eq!(
        settings,
        Settings {
            admin_gate: AdminGate::Closed,
            sandbox: SandboxMode::Required,
            memory_mb: 1024,
            read_paths: Vec::new(),
            kernel_lacks: KernelLacks::default(),
            apple_parts: None,
            dumpable: false,
            code_analysis: CodeAnalysis::On,
            python: None,
            env_allow: Vec::new(),
            warm: true,
            verdict_note: VerdictNote::Vacuous,
            vacuity: false,
            result_chars: None,
            answer_once: false,
            pictures: true,
            warm_idle: Some(Duration::from_secs(1800)),
            preload: settings.preload.clone(),
            fork_server_runs_max: 20_000,
            virtual_env: None,
            skill_manifest: None,
            aibom: None,
            llm_model: None,
            data_dir: None,
            policy: None,
            auth_token: None,
            auth_token_file: None,
            store: None,
            receipts: None,
            signing_key: None,
            receipts_sync: false,
            receipts_outputs: false,
            deterministic: None,
            sync_concurrency: 1,
            user_share: Share::default(),
            sync_timeout: Duration::from_secs(30),
            turn_deadline: None,
            background_timeout: Duration::from_secs(120),
            job_ttl: Duration::from_secs(3600),
        }
    );
    assert_eq!(warnings, []);
}

#[test]
fn only_the_word_true_opens_the_admin_gate() {
    for (value, expected) in [
        ("true", AdminGate::Open),
        ("TRUE", AdminGate::Open),
        ("True", AdminGate::Open),
        ("1", AdminGate::Closed),
        ("yes", AdminGate::Closed),
        (" true", AdminGate::Closed),
        ("", AdminGate::Closed),
    ] {
        let (settings, _) = read(&[("QWED_MCP_TRUSTED_CODE_EXECUTION", value)]);
        assert_eq!(settings.admin_gate, expected, "{value:?}");
    }
}

#[test]
fn the_background_timeout_is_clamped_or_falls_back() {
    for (value, seconds, warnings) in [
        ("", 120.0, 0),
        ("45", 45.0, 0),
        (" 0.5 ", 0.5, 0),
        ("600", 600.0, 0),
        ("601", 600.0, 0),
        ("1e9", 600.0, 0),
        ("0", 120.0, 1),
        ("-3", 120.0, 1),
        ("nan", 120.0, 1),
        ("inf", 120.0, 1),
        ("abc", 120.0, 1),
    ] {
        let (settings, found) = read(&[("QWED_MCP_BACKGROUND_TIMEOUT", value)]);
        assert_eq!(settings.background_timeout, Duration::from_secs_f64(seconds), "{value:?}");
        assert_eq!(found.len(), warnings, "{value:?}");
    }
}

#[test]
fn the_sync_concurrency_is_bounded() {
    for (value, expected, warnings) in
        [("", 1, 0), ("4", 4, 0), ("64", 64, 0), ("0", 1, 1), ("65", 1, 1), ("x", 1, 1)]
    {
        let (settings, found) = read(&[("QWED_MCP_SYNC_CONCURRENCY", value)]);
        assert_eq!(settings.sync_concurrency, expected, "{value:?}");
        assert_eq!(found.len(), warnings, "{value:?}");
    }
}

#[test]
fn a_sandbox_word_that_is_not_known_is_taken_as_the_default() {
    for (value, expected, warnings) in [
        ("", SandboxMode::Required, 0),
        ("required", SandboxMode::Required, 0),
        ("Strict", SandboxMode::Strict, 0),
        ("degraded", SandboxMode::Degraded, 1),
        ("off", SandboxMode::Off, 1),
        ("of", SandboxMode::Required, 1),
    ] {
        let (settings, found) = read(&[("QWED_MCP_SANDBOX", value)]);
        assert_eq!((settings.sandbox, found.len()), (expected, warnings), "{value:?}");
    }
}

#[test]
fn the_memory_limit_is_bounded() {
    for (value, expected, warnings) in
        [("", 1024, 0), ("512", 512, 0), ("127", 1024, 1), ("1048577", 1024, 1), ("1G", 1024, 1)]
    {
        let (settings, found) = read(&[("QWED_MCP_MEMORY_MB", value)]);
        assert_eq!((settings.memory_mb, found.len()), (expected, warnings), "{value:?}");
    }
}

#[test]
fn warm_interpreters_are_kept_for_a_while_and_load_what_is_listed() {
    for (value, expected, warnings) in
        [("", true, 0), ("on", true, 0), ("OFF", false, 0), ("1", true, 1)]
    {
        let (settings, found) = read(&[("QWED_MCP_WARM", value)]);
        assert_eq!((settings.warm, found.len()), (expected, warnings), "{value:?}");
    }
    for (value, expected, warnings) in
        [("", Some(1800), 0), ("60", Some(60), 0), ("0", None, 0), ("-1", Some(1800), 1)]
    {
        let (settings, found) = read(&[("QWED_MCP_WARM_IDLE_SECONDS", value)]);
        let expected = expected.map(Duration::from_secs);
        assert_eq!((settings.warm_idle, found.len()), (expected, warnings), "{value:?}");
    }
    let default = read(&[]).0.preload;
    let [light, usual, guards, drawing] = &default[..] else { panic!("{default:?}") };
    assert!(light.contains(&"json".to_owned()), "{light:?}");
    assert!(usual.contains(&"sympy".to_owned()), "{usual:?}");
    assert!(guards.contains(&"qwed_legal".to_owned()), "{guards:?}");
    assert_eq!(drawing, &["matplotlib.pyplot"]);
    for (value, expected, warnings) in [
        ("", Some(&[][..]), 0),
        (" math, numpy.random,", Some(&["math", "numpy.random"]), 0),
        ("math;json", None, 1),
        ("math.", None, 1),
    ] {
        let (settings, found) = read(&[("QWED_MCP_PRELOAD", value)]);
        let expected = expected.map(|names| vec![names.iter().map(ToString::to_string).collect()]);
        assert_eq!(settings.preload, expected.unwrap_or_else(|| default.clone()), "{value:?}");
        assert_eq!(found.len(), warnings, "{value:?}");
    }
}

#[test]
fn read_paths_are_separated_by_colons() {
    let (settings, _) = read(&[("QWED_MCP_READ_PATHS", "/srv/data:/opt/rules::")]);
    assert_eq!(settings.read_paths, ["/srv/data", "/opt/rules"].map(PathBuf::from));
}

#[test]
fn an_empty_data_folder_is_none() {
    for (value, expected) in [("", None), ("/srv/qwed", Some("/srv/qwed"))] {
        let (settings, warnings) = read(&[("QWED_MCP_DATA_DIR", value)]);
        assert_eq!(settings.data_dir, expected.map(PathBuf::from));
        assert_eq!(warnings, []);
    }
}

#[test]
fn warnings_say_what_is_used_instead() {
    let variables = [
        ("QWED_MCP_BACKGROUND_TIMEOUT", "x"),
        ("QWED_MCP_ENV_ALLOW", "polars>=1"),
        ("QWED_MCP_SYNC_CONCURRENCY", "x"),
        ("QWED_MCP_WARM_IDLE_SECONDS", "x"),
        ("QWED_MCP_MEMORY_MB", "x"),
        ("QWED_MCP_PRELOAD", "x;y"),
        ("QWED_MCP_RESULT_CHARS", "999"),
        ("QWED_MCP_SANDBOX", "x"),
        ("QWED_MCP_WARM", "x"),
    ];
    let mut texts: Vec<_> = read(&variables).1.iter().map(ToString::to_string).collect();
    texts.sort();
    assert_eq!(
        texts,
        [
            "QWED_MCP_BACKGROUND_TIMEOUT is not a positive number of seconds; using 120",
            "QWED_MCP_ENV_ALLOW is not a list of package names with commas between them; installing \
             nothing",
            "QWED_MCP_MEMORY_MB is not a whole number from 128 to 1048576; using 1024",
            "QWED_MCP_PRELOAD is not a list of module names with commas between them; using the \
             default",
            "QWED_MCP_RESULT_CHARS is not a whole number from 1000 to 2097152; shortening no output",
            "QWED_MCP_SANDBOX is not required, strict, degraded or off; using required",
            "QWED_MCP_SYNC_CONCURRENCY is not a whole number from 1 to 64; using 1",
            "QWED_MCP_WARM is neither on nor off; using on",
            "QWED_MCP_WARM_IDLE_SECONDS is not a whole number; using 1800",
        ]
    );
    for (value, text) in [
        (
            "degraded",
            "QWED_MCP_SANDBOX=degraded: where parts of the kernel sandbox are missing, scripts run \
             without them",
        ),
        ("off", "QWED_MCP_SANDBOX=off: scripts run with all rights of the server's user"),
    ] {
        let (_, warnings) = read(&[("QWED_MCP_SANDBOX", value)]);
        assert_eq!(warnings, [SettingsWarning(text.to_owned())]);
    }
}

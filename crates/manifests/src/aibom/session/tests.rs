use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, symlink};
use std::os::unix::net::UnixListener;

use serde_json::{Value, json};

use super::*;

fn strings(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

#[test]
fn cyclonedx_tells_every_part_with_its_kind() {
    let session = Session::new(None);
    session.record_model("m");
    session.record_tool("execute_python_code");
    session.record_client("client", "1.0");
    session.record_script(&strings(&["z3", "qwed_legal.A", "qwed_legal.B"]));
    let package = |distribution: &str, version: &str| Package {
        distribution: distribution.to_owned(),
        version: version.to_owned(),
    };
    session.record_packages(InstalledPackages {
        python: "3.11.7".to_owned(),
        packages: [
            ("z3".to_owned(), package("z3_Solver", "5.1+local")),
            ("qwed_legal".to_owned(), package("qwed-legal", "0.5.1")),
        ]
        .into(),
    });
    let document = session.manifest().to_cyclonedx();
    let told = |list: &str, field: &str| -> Vec<Value> {
        document[list].as_array().unwrap().iter().map(|part| part[field].clone()).collect()
    };
    assert_eq!(
        told("components", "type"),
        [
            "machine-learning-model",
            "library",
            "library",
            "library",
            "platform",
            "application",
            "application"
        ]
    );
    assert_eq!(
        told("components", "purl"),
        [
            Value::Null,
            json!("pkg:pypi/qwed-legal@0.5.1"),
            json!("pkg:pypi/qwed-legal@0.5.1"),
            json!("pkg:pypi/z3-solver@5.1%2Blocal"),
            Value::Null,
            Value::Null,
            Value::Null,
        ]
    );
    assert_eq!(told("services", "name"), ["execute_python_code"]);
    assert_eq!(
        document["metadata"]["properties"][1]["value"],
        json!(session.manifest().manifest_hash)
    );
}

#[test]
fn engines_are_the_verification_libraries() {
    let imports = [
        "json",
        "sympy",
        "sympy.abc.x",
        "z3.Solver",
        "z3",
        "qwed_legal.DeadlineGuard",
        "qwed_legal",
        "qwed",
        "qwed.x",
        "qwedish",
        "sympyx",
    ];
    assert_eq!(
        engines(imports.into_iter()),
        ["qwed", "qwed_legal", "qwed_legal.DeadlineGuard", "sympy", "z3"]
    );
}

#[test]
fn a_session_asks_for_each_module_once() {
    let session = Session::new(None);
    assert_eq!(session.record_script(&[]), Some(vec![]), "the interpreter is not known yet");
    assert_eq!(session.record_script(&[]), None);
    assert_eq!(
        session.record_script(&strings(&["qwed_legal.A", "qwed_legal.B", "z3"])),
        Some(strings(&["qwed_legal", "z3"]))
    );
    // A module must not be requested again, even if its package was not found.
    assert_eq!(session.record_script(&strings(&["qwed_legal.A", "z3"])), None);
}

#[test]
fn the_model_of_the_settings_is_for_callers_that_tell_none() {
    let names = |session: &Session| -> Vec<String> {
        session.manifest().components.models.into_iter().map(|model| model.name).collect()
    };
    let session = Session::new(Some("from-settings".to_owned()));
    assert_eq!(names(&session), ["from-settings"]);
    session.record_model("");
    session.record_model("told");
    assert_eq!(names(&session), ["told"]);
    assert!(names(&Session::new(None)).is_empty());
}

#[test]
fn names_that_others_choose_are_bounded() {
    let session = Session::new(None);
    for index in 0..2_000 {
        session.record_model(&format!("{index}{}", "x".repeat(1_000)));
        session.record_client(&format!("{index}"), &"9".repeat(1_000));
        session.record_script(&[format!("qwed_{index}")]);
    }
    let bom = session.manifest();
    let Components { models, verification_engines, runtime, .. } = bom.components;
    assert_eq!([models.len(), verification_engines.len()], [1_000, 1_000]);
    assert!(runtime.len() < 1_010);
    assert!(models.iter().all(|model| model.name.chars().count() <= 200));
}

#[test]
fn a_bill_is_written_whole_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let session = Session::new(Some("m".to_owned()));
    let read = |path: &std::path::Path| -> Value {
        serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
    };
    let file = folder.path().join("bom.json");
    fs::write(&file, "old").unwrap();
    assert_eq!(session.write(&file).unwrap(), file);
    assert_eq!(read(&file)["compliance"], "QWED_AI_SPM_v1");

    let cyclonedx = folder.path().join("bom.cdx.json");
    session.write(&cyclonedx).unwrap();
    assert_eq!(read(&cyclonedx)["bomFormat"], "CycloneDX");

    // Each write into a folder must create a new file.
    let names = [(); 2].map(|()| session.write(folder.path()).unwrap());
    assert!(names[0] != names[1] && names.iter().all(|name| name.is_file()));

    assert!(session.write(&folder.path().join("missing/bom.json")).is_err());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 4, "nothing half-written is left");
}

#[test]
fn a_bill_says_that_it_is_incomplete_until_every_look_up_is_answered() {
    let session = Session::new(None);
    let is_incomplete = || {
        let bill = session.manifest();
        let document = bill.to_cyclonedx();
        let properties = document["metadata"]["properties"].as_array().unwrap();
        let told = properties.iter().any(|property| property["name"] == "qwed:incomplete");
        assert_eq!(json!(bill).get("incomplete").is_some(), told);
        told
    };
    let answer = || InstalledPackages { python: "3.11.7".to_owned(), packages: BTreeMap::new() };
    assert!(!is_incomplete(), "nothing was run");
    assert!(session.record_script(&strings(&["z3"])).is_some());
    assert!(session.record_script(&strings(&["z3"])).is_none());
    assert!(session.record_script(&strings(&["sympy"])).is_some());
    let hash = session.manifest().manifest_hash;
    for is_left in [true, false] {
        assert!(is_incomplete());
        session.record_packages(answer());
        assert_eq!(is_incomplete(), is_left);
    }
    assert_ne!(session.manifest().manifest_hash, hash);
}

#[test]
fn only_regular_files_are_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let session = Session::new(Some("m".to_owned()));
    let socket = UnixListener::bind(at("socket")).unwrap();
    symlink(at("socket"), at("to-socket")).unwrap();
    symlink("/dev/null", at("to-device")).unwrap();
    symlink(at("missing"), at("dangling")).unwrap();
    symlink(at("round"), at("round")).unwrap();
    for (name, expected) in [
        ("socket", "it is not a regular file"),
        ("to-socket", "it is not a regular file"),
        ("to-device", "it is not a regular file"),
        ("dangling", "it is a broken symlink"),
        ("round", "it cannot be checked: "),
        ("missing/bom.json", "its folder does not exist"),
    ] {
        let before = at(name).symlink_metadata().map(|found| (found.ino(), found.mode())).ok();
        for error in [
            destination(&at(name)).unwrap_err().to_string(),
            session.write(&at(name)).unwrap_err().to_string(),
        ] {
            assert!(error.starts_with(expected), "{name}: {error}");
        }
        let after = at(name).symlink_metadata().map(|found| (found.ino(), found.mode())).ok();
        assert_eq!(before, after, "{name}");
    }
    assert!(Path::new("/dev/null").metadata().unwrap().file_type().is_char_device());
    drop(socket);

    // The write must replace the target of a symlink, and not the symlink.
    fs::create_dir(at("kept")).unwrap();
    fs::write(at("kept/bill"), "old").unwrap();
    symlink("kept/bill", at("link.cdx.json")).unwrap();
    let target = at("kept/bill").canonicalize().unwrap();
    assert_eq!(session.write(&at("link.cdx.json")).unwrap(), target);
    assert!(at("link.cdx.json").is_symlink());
    assert!(fs::read_to_string(at("kept/bill")).unwrap().contains("CycloneDX"));
    assert_eq!(fs::read_dir(at("kept")).unwrap().count(), 1);
}

use std::os::unix::fs::symlink;

use super::*;

fn list(expected: &[ExpectedOutcome]) -> TestList {
    let tests = expected.iter().enumerate();
    let tests =
        tests.map(|(at, outcome)| ListedTest { id: format!("t.py::t{at}"), outcome: *outcome });
    TestList {
        format: 1,
        tests_sha256: String::new(),
        level: Level::Pinned,
        tests: tests.collect(),
        kinds: BTreeMap::new(),
    }
}

#[test]
fn each_listed_test_has_to_have_its_outcome() {
    use ExpectedOutcome::{Passed, Skipped, Xfailed};
    let three = list(&[Passed, Skipped, Xfailed]);
    for outcomes in ["psx", "ppp", "psp"] {
        assert_eq!(three.deviation(outcomes), None, "{outcomes}");
    }
    for (outcomes, found) in [
        ("ssx", "1 of the 3 tests that have to pass did not: t.py::t0 (skipped)"),
        ("xsx", "1 of the 3 tests that have to pass did not: t.py::t0 (xfailed)"),
        ("p-x", "1 of the 3 tests that have to pass did not: t.py::t1 (did not run)"),
        ("ps", "1 of the 3 tests that have to pass did not: t.py::t2 (did not run)"),
        (
            "ef-",
            "3 of the 3 tests that have to pass did not: t.py::t0 (error), t.py::t1 (failed), t.py::t2 (did not run)",
        ),
    ] {
        assert_eq!(three.deviation(outcomes).as_deref(), Some(found), "{outcomes}");
    }
    let many = list(&[Passed; 9]).deviation("").unwrap();
    assert!(
        many.starts_with("9 of the 9 tests ") && many.ends_with("t.py::t4 (did not run), …"),
        "{many}"
    );
}

#[test]
fn a_result_below_the_required_level_is_incomplete() {
    let verdict = |judge: &Judge, report: TestSummary| {
        judge.correct(Verdict::of_status(RunStatus::Passed), Some(&report))
    };
    let report = TestSummary { passed: 1, ..TestSummary::default() };
    assert_eq!(verdict(&Judge::default(), report.clone()).status, RunStatus::Passed);
    let judge = Judge { required: Level::Pinned, ..Judge::default() };
    let found = verdict(&judge, report);
    let reason = "the policy requires the level pinned, and the tests were judged in-process";
    assert_eq!((found.status, found.reason.as_deref()), (RunStatus::Incomplete, Some(reason)));
}

#[test]
fn the_digest_of_a_folder_covers_every_name_and_byte() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, content: &str| {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    };
    let digest = || folder::sha256(folder.path()).unwrap();
    let empty = digest();
    assert_eq!(empty, hex::encode(Sha256::digest("")));
    write("a/test_a.py", "1");
    let one = digest();
    let line = format!("{}  a/test_a.py\n", hex::encode(Sha256::digest("1")));
    assert_eq!(one, hex::encode(Sha256::digest(line)));
    write("a/test_a.py", "2");
    let other = digest();
    write("a/test_a.py", "1");
    write("b.py", "");
    let two = digest();
    assert_eq!(
        [&empty, &one, &other, &two].into_iter().collect::<std::collections::BTreeSet<_>>().len(),
        4
    );
    // The digest omits these files, because they do not change a run.
    write("a/__pycache__/test_a.pyc", "x");
    write(".git/HEAD", "x");
    assert_eq!(digest(), two);
    symlink("/etc", folder.path().join("link")).unwrap();
    let refused = folder::sha256(folder.path()).unwrap_err().to_string();
    assert!(refused.contains("a symlink"), "{refused}");
}

#[test]
fn a_list_that_is_none_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("list.json");
    let read = |content: &str| {
        fs::write(&path, content).unwrap();
        read_list(&path).map_err(|error| error.to_string())
    };
    let one = r#"{"format": 1, "tests_sha256": "ab", "level": "pinned", "tests": [{"id": "a", "outcome": "passed"}]}"#;
    assert_eq!(read(one).unwrap().0.tests.len(), 1);
    for (content, why) in [
        ("", "it is not a list of tests"),
        ("[]", "it is not a list of tests"),
        (&one.replace("passed", "failed"), "it is not a list of tests"),
        (&one.replace("passed", "skipped"), "no test in it has to pass"),
        (&one.replace("\"format\": 1", "\"format\": 2"), "its format is not 1"),
    ] {
        let error = read(content).unwrap_err();
        let expected =
            format!("judge.list cannot be read: {why}; record it with qwed-mcp judge record");
        assert_eq!(error, expected, "{content}");
    }
    let folder = read_list(folder.path()).unwrap_err().to_string();
    assert!(folder.contains("not a regular file"), "{folder}");
}

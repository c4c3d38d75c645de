//! Computes the key of a run: a digest of everything that the run's result depends on. Two runs with the same key
//! have the same result, if the script is deterministic. This module never runs a script.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use sha2::{Digest as _, Sha256};
use tokio::task::spawn_blocking;

use crate::config::{Settings, VerdictNote};
use crate::executor::{
    EnvironmentCache, EnvironmentDigest, EnvironmentDigests, RunLimits, Surroundings,
};
use crate::gateway::{AuthorizedScript, Form};
use crate::verification::RULES_SHA256;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Key(pub(super) [u8; 32]);

/// Computes keys. Contains the settings that are part of every key.
#[derive(Debug)]
pub(super) struct Keys {
    environments: Arc<EnvironmentDigests>,
    vacuity: bool,
    verdict_note: VerdictNote,
}

/// The parts of a call that belong to the key of the run, in addition to the script.
#[derive(Debug, Clone, Copy)]
pub(in crate::scripts) struct Asked<'a> {
    pub(in crate::scripts) user: Option<&'a str>,
    pub(in crate::scripts) limits: RunLimits,
    pub(in crate::scripts) lacks_packages: bool,
}

/// The facts that identify a run. The SHA-256 of their JSON is the key of the run. Different facts never have the same
/// JSON.
#[derive(Serialize)]
struct Facts<'a> {
    version: &'static str,
    rules_sha256: &'a str,
    /// Users do not share results. Otherwise the duration of a call would show whether another user ran the same
    /// script.
    user: Option<&'a str>,
    audited_user: Option<&'a str>,
    /// The model is part of the key, because the verdict in the result contains the model.
    model: Option<&'a str>,
    script: String,
    stdin: String,
    inputs: Vec<(&'a str, Form, &'a str)>,
    call: &'a str,
    check_plan: &'a str,
    timeout: Duration,
    output_bytes_max: usize,
    memory_mb: Option<u64>,
    takes_pictures: bool,
    vacuity: bool,
    verdict_note: String,
    /// Whether packages that the script lists could not be installed.
    lacks_packages: bool,
    environment: EnvironmentDigest,
}

impl Keys {
    pub(super) fn new(settings: &Settings, environment: Arc<EnvironmentCache>) -> Self {
        let Settings { vacuity, verdict_note, .. } = *settings;
        Self { environments: Arc::new(EnvironmentDigests::new(environment)), vacuity, verdict_note }
    }

    /// Returns the digest of the current environment. `None` if it cannot be computed.
    pub(super) async fn environment(
        &self,
        surroundings: &Arc<Surroundings>,
    ) -> Option<EnvironmentDigest> {
        if let Some(known) = self.environments.known(surroundings) {
            return known.ok();
        }
        let (environments, of) = (Arc::clone(&self.environments), Arc::clone(surroundings));
        spawn_blocking(move || environments.get(&of)).await.ok()?.ok()
    }

    /// Returns the key of a run. `None` if the facts cannot be written as JSON.
    pub(super) fn key(
        &self,
        script: &AuthorizedScript,
        asked: Asked<'_>,
        environment: EnvironmentDigest,
    ) -> Option<Key> {
        let Asked { user, limits, lacks_packages } = asked;
        // `neighbours` is not part of the key, because it does not come from the call. The executor sets `neighbours`
        // when the run starts, to limit the processes of all runs together.
        let RunLimits { timeout, output_bytes_max, takes_pictures, memory_mb, neighbours: _ } =
            limits;
        let digests = script.inputs().digests();
        let inputs = script.inputs().files().zip(digests);
        let by = script.asked_by();
        let facts = Facts {
            version: env!("CARGO_PKG_VERSION"),
            rules_sha256: &RULES_SHA256,
            user,
            audited_user: by.user.as_deref(),
            model: by.model.as_deref(),
            script: sha256(script.source().as_str()),
            stdin: sha256(script.stdin()),
            inputs: inputs.map(|((name, form, _), (_, sha256))| (name, form, sha256)).collect(),
            call: script.call(),
            check_plan: script.check_plan(),
            timeout,
            output_bytes_max,
            memory_mb,
            takes_pictures,
            vacuity: self.vacuity,
            verdict_note: format!("{:?}", self.verdict_note),
            lacks_packages,
            environment,
        };
        let facts = serde_json::to_vec(&facts).ok()?;
        Some(Key(Sha256::digest(facts).into()))
    }
}

fn sha256(bytes: impl AsRef<[u8]>) -> String {
    hex::encode(Sha256::digest(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::tests::granted_with;
    use crate::gateway::{AskedBy, Inputs};

    const ASKED: fn() -> Asked<'static> = || Asked {
        user: None,
        limits: RunLimits::of_script(Duration::from_secs(9)),
        lacks_packages: false,
    };

    fn script(code: &str, files: &[(&str, Form, &str)], calls: &[&str]) -> AuthorizedScript {
        let files = files
            .iter()
            .map(|(name, form, text)| ((*name).to_owned(), *form, text.as_bytes().to_vec()));
        granted_with(code, Inputs::new(files.collect()).unwrap(), calls)
    }

    fn settings(variable: &'static str, value: &'static str) -> Keys {
        let lookup = |name: &str| (name == variable).then(|| value.into());
        Keys::new(&Settings::from_lookup(lookup).0, Arc::default())
    }

    #[test]
    fn every_part_of_a_run_changes_its_key() {
        let keys = settings("", "");
        let key = |script: AuthorizedScript| keys.key(&script, ASKED(), [0; 32]).unwrap();
        let asked = |asked| keys.key(&script("1", &[], &[]), asked, [0; 32]).unwrap();
        let limited = |limits| asked(Asked { limits, ..ASKED() });
        let limits = ASKED().limits;
        let by = |user: Option<&str>, model: Option<&str>| AskedBy {
            user: user.map(str::to_owned),
            model: model.map(str::to_owned),
            ..AskedBy::default()
        };
        let calls = ["1", "2"];
        let with_settings =
            |keys: Keys| keys.key(&script("1", &[], &[]), ASKED(), [0; 32]).unwrap();
        let mut all = vec![
            key(script("1", &[], &[])),
            key(script("2", &[], &[])),
            key(script("assert f(1) == 2", &[], &[])),
            key(script("1", &[], &[]).with_stdin(b"1"[..].into())),
            key(script("1", &[("a", Form::Text, "1")], &[])),
            key(script("1", &[("b", Form::Text, "1")], &[])),
            key(script("1", &[("a", Form::Bytes, "1")], &[])),
            key(script("1", &[("a", Form::Text, "2")], &[])),
            key(script("1", &[("a", Form::Text, ""), ("b", Form::Text, "1")], &[])),
            key(script("1", &[], &calls).with_call(Some(0))),
            key(script("1", &[], &calls).with_call(Some(1))),
            key(script("1", &[], &[]).with_asked_by(by(Some("ann"), None))),
            key(script("1", &[], &[]).with_asked_by(by(None, Some("ann")))),
            asked(Asked { user: Some("ann"), ..ASKED() }),
            asked(Asked { lacks_packages: true, ..ASKED() }),
            limited(RunLimits { timeout: Duration::from_secs(8), ..limits }),
            limited(RunLimits { output_bytes_max: 1, ..limits }),
            limited(RunLimits { memory_mb: Some(512), ..limits }),
            limited(RunLimits { takes_pictures: true, ..limits }),
            with_settings(settings("QWED_MCP_VACUITY", "on")),
            with_settings(settings("QWED_MCP_VERDICT_NOTE", "off")),
            keys.key(&script("1", &[], &[]), ASKED(), [1; 32]).unwrap(),
        ];
        // These calls differ only in parts that do not affect the result.
        assert_eq!(key(script("1", &[], &calls)), all[0]);
        assert_eq!(key(script("1", &[], &[])), all[0]);
        let count = all.len();
        all.sort_unstable_by_key(|key| key.0);
        all.dedup();
        assert_eq!(all.len(), count);
    }
}

//! The decision about scripts of a pipeline that its admin trusts the kernel with: what the analysis finds is
//! reported, and stops nothing.
//!
//! This is a gateway of its own, so that the other one cannot be talked into it: the server that clients see
//! holds a [`RiskBasedExecutionGateway`](super::RiskBasedExecutionGateway), which has no such mode, and
//! nothing turns one into the other. Only `batch` makes one; a test reads the sources.

use crate::config::{AdminGate, Settings};
use crate::sandbox::Tier;

use super::arguments;
use super::{
    Analysed, Arguments, AuthorizedScript, Decision, DecisionFinding, DecisionRecord, ErrorCode,
    Grant, ScriptNames, SourceCode, Status, policy,
};

/// Lets scripts run whatever the analysis finds in them, in the whole sandbox or not at all.
#[derive(Debug)]
pub(crate) struct ReportingGateway {
    admin_gate: AdminGate,
}

/// A script whose findings are reported. It is no permission to run it.
#[derive(Debug)]
#[must_use = "the script runs only if the sandbox confirms it"]
pub(crate) struct Reported {
    record: DecisionRecord,
    source: SourceCode,
    names: Option<ScriptNames>,
}

impl ReportingGateway {
    /// Creates the gateway of a batch whose command line says `--analysis report`.
    pub(crate) fn at_the_word_of_the_admin(settings: &Settings) -> Self {
        Self { admin_gate: settings.admin_gate }
    }

    /// Analyses a script. What is found is in the record.
    ///
    /// # Errors
    ///
    /// The refusal, where the admin lets no code run, or there is none.
    pub(crate) fn evaluate(&self, arguments: Arguments) -> Result<Reported, Box<DecisionRecord>> {
        let policy = &policy::EXECUTION;
        let (source, background) =
            arguments::execution(arguments).map_err(|invalid| Box::new(invalid.refuse(policy)))?;
        let record = policy.verify(arguments::normalized_execution(&source, background));
        let record = self.admin_gate.pass(record)?;
        let Analysed { issues, notes, names, mut findings } = Analysed::of(&source);
        if findings.is_empty() {
            // What is no finding of a rule: a script that cannot be analysed.
            findings = issues.into_iter().map(DecisionFinding::of_text).collect();
        }
        let message = "The findings are reported and not acted on: --analysis report.".to_owned();
        let record = DecisionRecord { message, notes, findings, ..record };
        Ok(Reported { record, source, names })
    }
}

impl Reported {
    /// Makes the decision final. Nothing but the kernel holds the script, so all of the sandbox has to be there:
    /// `tier` is what holds scripts here, or the error says what is missing.
    pub(crate) fn confirm(self, tier: Result<Option<Tier>, String>) -> Decision {
        let Self { record, source, names } = self;
        let missing = match tier {
            Ok(Some(Tier::T3)) => {
                let script = AuthorizedScript::new(source, names, record.verification_id.clone())
                    .with_findings(record.findings.len());
                return Decision::Allow { record, grant: Grant::Execute(script) };
            }
            Ok(Some(Tier::T2 | Tier::Seatbelt | Tier::T1 | Tier::Off) | None) => {
                "--analysis report runs scripts at tier 3 only".to_owned()
            }
            Err(missing) => missing,
        };
        let (status, code) = (Status::BlockedAdminPolicy, ErrorCode::SandboxUnavailable);
        Decision::Refuse(record.refused(status, code, missing))
    }

    /// Ends a call that its caller gave up before the sandbox's word came. Nothing is permitted.
    pub(crate) fn withdraw(self) -> Decision {
        Decision::Withdrawn(self.record)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn evaluate(admin_gate: AdminGate, code: &str) -> Result<Reported, Box<DecisionRecord>> {
        let arguments = Arguments::from_iter([("code".to_owned(), json!(code))]);
        ReportingGateway { admin_gate }.evaluate(arguments)
    }

    #[test]
    fn what_is_found_is_reported_and_runs_in_the_whole_sandbox_alone() {
        for (code, is_found) in
            [("import os\nos.system('id')", true), ("def f(:", true), ("print(1)", false)]
        {
            let decision = evaluate(AdminGate::Open, code).unwrap().confirm(Ok(Some(Tier::T3)));
            let Decision::Allow { record, grant: Grant::Execute(script) } = decision else {
                panic!("{code}: {decision:?}")
            };
            assert_eq!(!record.findings.is_empty(), is_found, "{code}");
            assert_eq!(script.source().as_str(), code);
            let tiers = [Some(Tier::T2), Some(Tier::T1), Some(Tier::Off), None].map(Ok);
            for tier in tiers.into_iter().chain([Err("why".to_owned())]) {
                let decision = evaluate(AdminGate::Open, code).unwrap().confirm(tier);
                let Decision::Refuse(record) = decision else { panic!("{code}: {decision:?}") };
                assert_eq!(record.error_code, Some(ErrorCode::SandboxUnavailable));
            }
        }
    }

    #[test]
    fn the_admin_gate_stays_shut() {
        let record = evaluate(AdminGate::Closed, "print(1)").unwrap_err();
        assert_eq!(record.error_code, Some(ErrorCode::AdminGateClosed));
        let record = evaluate(AdminGate::Open, " ").unwrap_err();
        assert_eq!(record.error_code, Some(ErrorCode::CodeMissing));
    }
}

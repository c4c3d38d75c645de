//! A second gateway, for batches of an admin that relies on the kernel's sandbox alone. This gateway reports the
//! findings of the analysis, but findings never stop a script.
//!
//! This gateway is a separate type, so that no input can make the gateway for clients stop blocking. The server for
//! clients has a [`RiskBasedExecutionGateway`](super::RiskBasedExecutionGateway), which always blocks scripts with
//! findings. No code converts between the two types. Only `run --batch` creates a `ReportingGateway`. A test checks in
//! the sources that no other code creates one.

use crate::config::{AdminGate, Settings};

use super::verified::Needs;
use super::{
    Accompanying, Analysed, Arguments, DecisionFinding, DecisionRecord, Verified,
    verified_arguments,
};

/// A gateway that allows scripts regardless of findings, but only in the complete sandbox (T3).
#[derive(Debug)]
pub(crate) struct ReportingGateway {
    admin_gate: AdminGate,
}

impl ReportingGateway {
    /// Creates the gateway for a batch that an admin starts with `--analysis report`.
    pub(crate) fn for_admin_batch(settings: &Settings) -> Self {
        Self { admin_gate: settings.admin_gate }
    }

    /// Returns whether the admin allows scripts to run at all.
    pub(super) fn admin_gate(&self) -> AdminGate {
        self.admin_gate
    }

    /// Analyses a script and the expressions of its tests. The record contains the findings.
    ///
    /// # Errors
    ///
    /// The refusal, if the admin gate is closed, or if the arguments contain no script.
    pub(super) fn evaluate(
        &self,
        arguments: Arguments,
        with: Accompanying,
    ) -> Result<Verified, Box<DecisionRecord>> {
        let (record, source, with, background) = verified_arguments(arguments, with)?;
        let record = self.admin_gate.pass(record)?;
        let Analysed { issues, notes, names, mut findings } = Analysed::of_script(&source, &with);
        if findings.is_empty() {
            // A script that cannot be analysed has a message in `issues`, but no finding.
            findings = issues.into_iter().map(DecisionFinding::of_text).collect();
        }
        let message = "The findings are reported and not acted on: --analysis report.".to_owned();
        let record = DecisionRecord { message, notes, findings, ..record };
        Ok(Verified::new(record, source, names, with, background).with_needs(Needs::Tier3))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::{Decision, ErrorCode, Grant};
    use super::*;
    use crate::sandbox::Tier;

    fn evaluate(admin_gate: AdminGate, code: &str) -> Result<Verified, Box<DecisionRecord>> {
        let arguments = Arguments::from_iter([("code".to_owned(), json!(code))]);
        ReportingGateway { admin_gate }.evaluate(arguments, Accompanying::default())
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

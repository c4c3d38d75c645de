//! Determines the conclusion of a run: its verdict, its refusal and its outcome in the audit log.

use super::artifacts::{ENTRIES_MAX, Size};
use super::budget::Bound;
use super::evidence::RunStatus;
use super::judge::Judge;
use super::policy::Policy;
use super::refusal::Refusal;
use super::summary::TestSummary;
use super::verdict::{Ended, Verdict};
use crate::executor::{Ending, FindError, NotContained, Outcome, RunError};
use crate::ledger::AuditOutcome;
use crate::logging::Causes;

/// The exit code of a process that SIGSYS killed. The system call filter sends this signal.
const KILLED_BY_FILTER: i32 = -31;

/// The reason why pytest was not run.
pub(super) enum NotRun {
    /// The budget had no time left.
    Refused(Refusal),
    /// The executor failed to run pytest.
    Failed(RunError),
}

pub(super) struct Ran {
    pub(super) outcome: Outcome,
    /// The limit that determined the maximum duration of the run: the timeout or the remaining budget.
    pub(super) bound: Bound,
    /// The size of the run's files, compared with the policy's limit.
    pub(super) files_size: Size,
}

/// The conclusion of a run: the verdict, and the error or the results for the caller.
pub(super) struct Conclusion {
    pub(super) verdict: Verdict,
    /// The error that the caller gets instead of a result.
    pub(super) refusal: Option<Refusal>,
    pub(super) outcome: Option<Outcome>,
    pub(super) summary: Option<TestSummary>,
}

impl Conclusion {
    /// Creates the conclusion of a run under `policy`. `report` has the outcomes of the tests. `ended` describes how
    /// pytest ended.
    pub(super) fn of_run(
        policy: &Policy,
        judge: &Judge,
        ran: Ran,
        report: Option<TestSummary>,
        ended: Option<Ended>,
    ) -> Self {
        let Ran { outcome, bound, files_size } = ran;
        let (sandbox, budget) = (&policy.sandbox, &policy.budget);
        let is_flood = outcome.stdout.is_truncated || outcome.stderr.is_truncated;
        let violation = |reason: String| {
            let verdict = Verdict::of_status(RunStatus::SandboxViolation);
            (verdict, Some(Refusal::SandboxViolation(reason)))
        };
        let (verdict, refusal) = match outcome.ending {
        _ if files_size == Size::Above => {
            let most = budget.artifact_bytes_max;
            violation(format!(
                "the tests left more than {most} bytes, or more than {ENTRIES_MAX} files"
            ))
        }
        _ if files_size == Size::Unknown => {
            violation("the tests left folders that cannot be read".to_owned())
        }
        _ if is_flood => {
            let most = budget.output_bytes_max;
            violation(format!("the tests printed more than {most} bytes"))
        }
        Ending::OutOfMemory => {
            let most = sandbox.memory_limit_mb;
            violation(format!("the tests took more than {most} MiB of memory"))
        }
        Ending::Exited(KILLED_BY_FILTER) => violation(
            "the tests were ended by SIGSYS: they made a system call that is forbidden, or sent it \
             themselves"
                .to_owned(),
        ),
        Ending::TimedOut => match bound {
            Bound::Timeout => (Verdict::of_status(RunStatus::Timeout), Some(Refusal::Timeout)),
            Bound::Budget => {
                let refusal = Refusal::BudgetExceeded("elapsed_ms_total");
                (Verdict::of_status(RunStatus::BudgetExceeded), Some(refusal))
            }
        },
        Ending::Cancelled => (Verdict::of_status(RunStatus::Cancelled), None),
        Ending::Exited(code) => {
            let verdict = Verdict::of(code, report.as_ref(), ended);
            (judge.correct(verdict, report.as_ref()), None)
        }
    };
        Self { verdict, refusal, outcome: Some(outcome), summary: report }
    }

    pub(super) fn audit_outcome(&self) -> AuditOutcome {
        match &self.refusal {
            Some(refusal) => AuditOutcome::of(refusal.code().name()),
            None => AuditOutcome::of(self.verdict.status.audit_word()),
        }
    }

    /// Creates the conclusion of a run that ended because pytest is not installed.
    pub(super) fn without_pytest(outcome: Outcome) -> Self {
        let message = "pytest is not installed for the interpreter of this server. Ask the admin to \
                       install it there";
        Self {
            verdict: Verdict::of_status(RunStatus::Error),
            refusal: Some(Refusal::Internal(message.to_owned())),
            outcome: Some(outcome),
            summary: None,
        }
    }
}

impl NotRun {
    /// Returns the conclusion of a call that did not run pytest.
    pub(super) fn conclusion(self) -> Conclusion {
        let (status, refusal) = match self {
            Self::Refused(refusal) => (RunStatus::BudgetExceeded, refusal),
            Self::Failed(error) => {
                tracing::error!(error = %Causes(&error), "pytest was not run");
                refusal_of(&error)
            }
        };
        let verdict = Verdict::of_status(status);
        Conclusion { verdict, refusal: Some(refusal), outcome: None, summary: None }
    }
}

fn refusal_of(error: &RunError) -> (RunStatus, Refusal) {
    match error {
        RunError::Contain(
            NotContained::Sandbox(_) | NotContained::FindInterpreter(FindError::InWorkspace(_)),
        )
        | RunError::StartPython(_)
        | RunError::Project(_) => {
            (RunStatus::SandboxViolation, Refusal::SandboxViolation(error.to_string()))
        }
        RunError::Contain(NotContained::FindInterpreter(_))
        | RunError::StartSupervisor(_)
        | RunError::Panicked
        | RunError::SupervisorDied
        | RunError::DoesNotEnd
        | RunError::OthersDoNotEnd => (RunStatus::Error, Refusal::Internal(error.to_string())),
    }
}

//! Decides which runs and results other calls may use. In doubt, each call runs its script itself.

use crate::executor::{Determinism, Outcome, Surroundings};
use crate::gateway::AuthorizedScript;
use crate::safety;
use crate::verification::differences::{Differences, Names};

/// The environment variable with further folders of modules. These modules can change without an installation of
/// packages.
const MODULES_VARIABLE: &str = "PYTHONPATH";

/// The Python error that may depend on the machine's memory.
const OUT_OF_MEMORY: &[u8] = b"MemoryError";

/// Returns `true` if clocks and memory addresses are the same in each run, and the files that scripts can read change
/// only if packages are installed. The analysis of a script alone does not suffice, because it does not recognise every
/// function that reads a clock or an address.
pub(super) fn is_fixed(surroundings: &Surroundings) -> bool {
    let Surroundings { tier, variables, determinism, .. } = surroundings;
    determinism.is_some_and(has_clock_and_addresses)
        && tier.hides_files()
        && variables.iter().all(|(name, _)| name != MODULES_VARIABLE)
}

fn has_clock_and_addresses(determinism: Determinism) -> bool {
    determinism.clock.is_some() && determinism.fixes_addresses
}

/// Returns the reasons why runs of a script may differ. `None` if the reasons are unknown. If an expression is
/// evaluated after the script, this function analyses the script and this expression together, because the earlier
/// analysis included the expressions of all tests.
pub(super) fn differences(script: &AuthorizedScript) -> Option<Differences> {
    // A script with findings may depend on files, processes or code outside of the script.
    if script.findings() > 0 {
        return None;
    }
    let source = script.source().as_str();
    if script.call().is_empty() {
        return Some(Differences::of(script.names().map(Names::of), source));
    }
    let extended = format!("{source}\n({}\n)\n", script.call());
    let analysis = safety::analyze_with_inputs(&extended, &script.inputs().names()).ok()?;
    let names = Names { imports: &analysis.imports, uses: &analysis.uses };
    Some(Differences::of(Some(names), &extended))
}

/// Returns whether a run ended by itself with complete output, and shows no reason why the next run may differ.
pub(super) fn may_be_used_again(
    outcome: &Outcome,
    differences: &Differences,
    surroundings: &Surroundings,
) -> bool {
    let Outcome { stdout, stderr, end_report, tier, start, .. } = outcome;
    let depends_on_load = outcome.verdict.as_ref().is_some_and(|verdict| verdict.depends_on_load);
    let is_disturbed = outcome.is_starved || outcome.took_pipes || depends_on_load;
    if !outcome.is_result() || tier.is_none() || is_disturbed {
        return false;
    }
    let is_short_of_memory =
        stderr.content().windows(OUT_OF_MEMORY.len()).any(|window| window == OUT_OF_MEMORY);
    let shown = [stdout.content(), stderr.content()];
    let observed = end_report.observed.as_ref();
    let measures = surroundings.measures(*start);
    let may_differ_by = differences.of_run(measures, observed, shown);
    let confirmed = measures.map(|it| it.confirmed(observed));
    confirmed.is_some_and(has_clock_and_addresses)
        && may_differ_by.is_empty()
        && !is_short_of_memory
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::PathBuf;
    use std::sync::Arc;

    use serde_json::Value;

    use super::*;
    use crate::executor::{Captured, EndReport, Ending, Observed, Start};
    use crate::sandbox::Tier;
    use crate::verdict::{Conclusion, Verdict};

    fn surroundings(tier: Tier, variable: &str) -> Surroundings {
        Surroundings {
            program_file: PathBuf::new(),
            implementation: String::new(),
            version: String::new(),
            packages: Vec::new(),
            own: Vec::new(),
            variables: vec![(variable.to_owned(), "0".to_owned())],
            readable: Vec::new(),
            tier,
            memory_mib: 1,
            plan_sha256: String::new(),
            determinism: Some(Determinism::complete()),
            preload: Vec::new(),
        }
    }

    #[test]
    fn surroundings_are_fixed_if_scripts_read_packages_only() {
        for (tier, variable, expected) in [
            (Tier::T3, "PYTHONHASHSEED", true),
            (Tier::T2, "PYTHONHASHSEED", true),
            (Tier::T1, "PYTHONHASHSEED", false),
            (Tier::Off, "PYTHONHASHSEED", false),
            (Tier::T3, "PYTHONPATH", false),
        ] {
            assert_eq!(is_fixed(&surroundings(tier, variable)), expected, "{tier} {variable}");
        }
        let all = Determinism::complete();
        let without = [
            None,
            Some(Determinism { clock: None, ..all }),
            Some(Determinism { fixes_addresses: false, ..all }),
        ];
        for determinism in without {
            let of = Surroundings { determinism, ..surroundings(Tier::T3, "PYTHONHASHSEED") };
            assert!(!is_fixed(&of), "{determinism:?}");
        }
    }

    #[test]
    fn only_whole_results_of_confirmed_runs_are_used_again() {
        let text = |text: &str| Captured { text: text.to_owned(), ..Captured::default() };
        let observed = |started| Some(Observed { started, native: BTreeSet::new() });
        let report = |started| EndReport { observed: observed(started), ..EndReport::default() };
        let ended = || Outcome {
            ending: Ending::Exited(0),
            tier: Some(Tier::T3),
            end_report: report(Some(0)),
            ..Outcome::never_started()
        };
        let cut_off = Captured { is_truncated: true, ..Captured::default() };
        let verdict = |depends_on_load| Verdict {
            outcome: Conclusion::Verified,
            checks: Vec::new(),
            checks_omitted: 0,
            document_digest: String::new(),
            document: Value::Null,
            depends_on_load,
        };
        let is_used = |outcome| {
            let surroundings = surroundings(Tier::T3, "PYTHONHASHSEED");
            may_be_used_again(&outcome, &Differences::default(), &surroundings)
        };
        for ending in [Ending::Exited(0), Ending::Exited(1)] {
            assert!(is_used(Outcome { ending, stdout: text("1"), ..ended() }), "{ending:?}");
        }
        assert!(is_used(Outcome { verdict: Some(Arc::new(verdict(false))), ..ended() }));
        for outcome in [
            Outcome { ending: Ending::Exited(-9), ..ended() },
            Outcome { ending: Ending::TimedOut, ..ended() },
            Outcome { ending: Ending::OutOfMemory, ..ended() },
            Outcome { ending: Ending::Cancelled, ..ended() },
            Outcome { tier: None, ..ended() },
            Outcome { is_starved: true, ..ended() },
            Outcome { took_pipes: true, ..ended() },
            Outcome { verdict: Some(Arc::new(verdict(true))), ..ended() },
            Outcome { stdout: cut_off.clone(), ..ended() },
            Outcome { stderr: cut_off, ..ended() },
            Outcome { stderr: text("MemoryError"), ..ended() },
            // The library that replaces clocks was not loaded, the run sent no report, or the script started a thread.
            Outcome { end_report: report(None), ..ended() },
            Outcome { end_report: EndReport::default(), ..ended() },
            Outcome { end_report: report(Some(1)), ..ended() },
        ] {
            let shown = format!("{outcome:?}");
            assert!(!is_used(outcome), "{shown}");
        }
    }

    #[test]
    fn a_result_is_used_again_if_the_interpreter_was_started_as_usual() {
        let observed = Some(Observed { started: Some(0), native: BTreeSet::new() });
        let outcome = |start| Outcome {
            ending: Ending::Exited(0),
            tier: Some(Tier::T3),
            end_report: EndReport { observed: observed.clone(), ..EndReport::default() },
            start,
            ..Outcome::never_started()
        };
        let warm = vec![vec!["json".to_owned()]];
        for (preload, start, expected) in [
            (Vec::new(), Start::Cold, true),
            (warm.clone(), Start::Warm, true),
            (warm, Start::Cold, false),
            (Vec::new(), Start::Warm, false),
        ] {
            let of = Surroundings { preload, ..surroundings(Tier::T3, "PYTHONHASHSEED") };
            let is_used = may_be_used_again(&outcome(start), &Differences::default(), &of);
            assert_eq!(is_used, expected, "{start:?} {:?}", of.preload);
        }
    }
}

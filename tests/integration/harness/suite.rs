//! The list of tests. Each test has a name, needs and a function.
//!
//! Rust's own harness cannot ignore a test at run time. This harness can, and reports the reason. If a test is not
//! listed, the compiler warns that its function is not used.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::process::{ExitCode, exit};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Failed, Trial};

use super::machine::{self, Need};

/// Tests that also have [`Need::Time`], so that `cargo test` takes only minutes. Each downloads packages, takes more
/// than 15 seconds on two busy processors, or uses two seconds of processor time and has the same result for every user
/// and folder. `report_times` prints the times.
const LONG: [&str; 127] = [
    "abuse::every_attack_works_without_a_sandbox_as_an_ordinary_user",
    "abuse::every_attack_works_without_a_sandbox_as_root",
    "abuse::nothing_gets_out_of_a_batch_that_reports",
    "abuse::nothing_gets_out_of_a_warm_interpreter_as_an_ordinary_user",
    "abuse::nothing_gets_out_of_a_warm_interpreter_as_root",
    "abuse::nothing_gets_out_of_tier_3_as_an_ordinary_user",
    "abuse::nothing_gets_out_of_tier_3_as_root",
    "abuse::only_the_documented_gets_out_of_tier_2_as_an_ordinary_user",
    "abuse::only_the_documented_gets_out_of_tier_2_as_root",
    "batch::a_terminal_has_a_bar",
    "batch::an_answer_to_other_expectations_is_not_kept",
    "corpus::every_attack_works_where_nothing_finds_it",
    "determinism::deterministic_runs_are_the_same_at_tier_2",
    "determinism::deterministic_runs_are_the_same_at_tier_3",
    "determinism::native_code_of_known_packages_is_no_cause",
    "determinism::runs_of_a_deterministic_server_are_warm_and_the_same",
    "documents::samples::commands_print_what_the_documents_show",
    "ends::a_bomb_that_goes_on_forking_ends_with_its_cancellation",
    "ends::a_bomb_that_goes_on_forking_ends_with_its_client",
    "ends::a_bomb_that_goes_on_forking_ends_with_its_time",
    "ends::a_folder_with_many_others_is_removed_to_the_end",
    "environments::a_missing_module_is_answered_with_the_installed_packages",
    "environments::a_package_cannot_bring_what_the_environment_starts_with",
    "environments::an_environment_is_made_with_uv",
    "environments::an_environment_is_made_with_venv_and_pip",
    "environments::an_environment_that_a_server_uses_stays_until_it_has_ended",
    "environments::an_environment_that_others_can_change_is_not_used",
    "environments::an_environment_that_starts_with_other_files_is_not_used",
    "environments::killed_at_any_point_it_leaves_no_environment",
    "environments::packages_of_scripts_stay_for_servers_and_replays_until_they_are_removed",
    "environments::packages_of_scripts_that_cannot_be_installed_are_reported",
    "environments::packages_that_a_script_lists_are_installed_if_the_admin_allows_them",
    "environments::the_newest_complete_environment_is_taken",
    "environments::the_real_packages_are_imported_and_used",
    "examples::every_import_of_the_migration_table_works",
    "governed::audit::as_many_calls_as_can_be_in_flight_are_carried_out_and_written_down",
    "governed::audit::sigkill_at_any_point_leaves_a_chain_that_verifies_and_shows_what_was_interrupted",
    "governed::audit::two_servers_share_the_store_under_load",
    "governed::evidence::a_server_removes_old_runs_when_it_starts",
    "governed::judge::a_file_that_pytest_failed_without_a_failed_test_has_not_passed",
    "governed::judge::a_pinned_run_has_passed_only_if_every_listed_test_has",
    "governed::judge::a_report_that_code_under_test_writes_is_not_that_of_the_observer",
    "governed::judge::an_editable_installation_does_not_bring_code_to_the_observer_or_the_tests",
    "governed::judge::doctor_says_what_the_judge_lacks",
    "governed::judge::nothing_passes_of_which_no_test_passed",
    "governed::judge::only_tests_that_pass_are_recorded",
    "governed::judge::plain_data_objects_and_exceptions_cross_between_the_processes",
    "governed::judge::plugins_and_compiled_files_of_the_workspace_are_not_used",
    "governed::judge::tests_that_always_pass_are_found_by_the_control",
    "governed::judge::tests_that_were_changed_after_the_list_was_recorded_are_not_run",
    "governed::refusals::a_run_that_leaves_too_much_at_tier_2_is_ended",
    "governed::refusals::every_role_may_do_what_its_row_says",
    "governed::refusals::the_policy_decides_and_is_read_again_when_it_changes",
    "governed::refusals::what_is_taken_back_reaches_those_who_wait_too",
    "governed::refusals::what_takes_too_much_is_a_violation",
    "governed::runs::a_public_project_counts_as_in_a_bare_run",
    "governed::runs::what_pytest_is_asked_for_is_what_it_runs",
    "governed::shared::a_quota_is_counted_over_all_servers",
    "governed::shared::nothing_is_done_without_the_database",
    "governed::verdicts::a_project_with_a_src_folder_is_imported_from",
    "governed::verdicts::a_run_has_a_verdict",
    "governed::verdicts::reports_that_plugins_write_are_artifacts",
    "governed::verdicts::what_is_left_in_place_of_the_report_is_no_result",
    "governed::verdicts::what_the_tests_forge_is_not_passed_on_as_a_result",
    "governed::verdicts::what_was_only_set_up_has_not_passed",
    "governed::wishes::a_user_has_so_many_runs_a_day",
    "governed::wishes::what_a_call_would_get_is_what_it_gets",
    "http::figures::jobs_are_those_of_all_replicas_and_unknown_while_the_database_is_away",
    "http::oauth::an_issuer_that_cannot_be_reached_lets_nobody_in",
    "http::oauth::keys_are_fetched_and_updated",
    "http::pipelines::inputs_above_a_message_reach_the_script",
    "http::shared_tokens::a_server_is_ready_when_it_can_write",
    "http::shared_tokens::a_token_is_worth_the_same_at_all_replicas",
    "http::shared_tokens::a_user_of_the_database_with_too_many_rights_is_reported",
    "http::shared_tokens::the_end_of_a_job_is_written_when_the_database_is_back",
    "http::shares::each_test_of_a_line_has_a_turn_of_its_own",
    "install::a_kill_at_any_moment_leaves_a_whole_file",
    "once::a_call_takes_over_from_a_cancelled_one",
    "once::a_changed_environment_makes_scripts_run_again",
    "once::a_file_that_is_edited_in_place_makes_scripts_run_again",
    "once::a_variant_that_does_not_end_makes_the_script_run_again",
    "once::lines_that_differ_in_anything_run_on_their_own",
    "once::only_runs_that_ended_by_themselves_are_used_again",
    "once::plots_are_made_again",
    "once::processes::a_changed_environment_has_no_results",
    "once::processes::a_changed_file_is_not_used",
    "once::processes::a_later_process_uses_a_result",
    "once::processes::batches_share_results",
    "once::processes::kills_lose_no_result",
    "once::processes::results_of_warm_runs_are_used_again_for_warm_runs",
    "once::processes::the_advice_about_a_missing_module_is_not_stored",
    "once::processes::without_receipts_of_scripts_nothing_is_stored",
    "once::scripts_whose_runs_may_differ_always_run",
    "pictures::a_job_keeps_its_pictures",
    "pictures::a_script_that_sends_pictures_itself_sends_pictures_only_at_tier_2",
    "pictures::a_script_that_sends_pictures_itself_sends_pictures_only_warm",
    "pictures::drawing_has_the_limits_of_the_script_warm",
    "pictures::figures_come_back_at_every_tier",
    "pictures::hostile_figures_fail_no_run_cold",
    "pictures::hostile_figures_fail_no_run_warm",
    "pictures::scripts_that_draw_have_an_interpreter_of_their_own",
    "prompts::statements_are_read_as_they_are_written",
    "prompts::values_in_another_form_verify_and_refute_nothing",
    "receipts::a_replay_reports_differences",
    "receipts::another_implementation_verifies_them",
    "sandbox::common_scripts_work_at_tier_2",
    "sandbox::common_scripts_work_in_warm_interpreters",
    "skills::each_example_of_the_skill_is_verified_and_refuted_with_another_value",
    "skills::other_errors_have_no_list_of_members",
    "skills::the_list_is_of_the_object_that_was_used",
    "skills::the_packages_of_the_skill_are_the_installed_ones",
    "supply_chain::a_bill_has_versions_or_says_that_it_has_not",
    "supply_chain::a_session_writes_the_bill_of_what_it_used",
    "supply_chain::cyclonedx_is_valid_by_the_official_schema",
    "supply_chain::the_bill_of_the_documents_is_real",
    "terminal::the_recorded_session_is_what_a_terminal_shows",
    "verdicts::documents_pass_the_published_schema_and_resolver",
    "warm::a_run_that_others_keep_from_the_processors_says_so",
    "warm::a_script_ends_warm_as_it_does_cold",
    "warm::numbers_are_computed_as_in_a_new_interpreter",
    "warm::two_thousand_calls_with_faults_get_their_own_results",
    "wire::a_client_that_does_not_read_makes_the_server_wait_and_not_grow",
    "wire::a_reply_is_never_cut_by_the_end_of_the_server",
    "wire::calls_above_the_bound_are_answered_busy_at_once_and_a_cancel_behind_them_is_seen",
    "wire::cancelling_again_and_again_leaks_no_place",
    "wire::requests_before_the_end_of_input_are_answered",
    "wire::requests_in_flight_are_bounded_in_bytes_too",
];

/// Tests with [`Need::Week`]. They take a third of the time of all long tests, and other tests find most of their faults
/// too. So `.ci/run` runs them only once a week.
const WEEKLY: [&str; 18] = [
    "batch::a_script_that_others_keep_from_the_processors_is_not_judged",
    "determinism::each_difference_is_fixed_or_named",
    "environments::a_full_disk_leaves_no_environment",
    "environments::a_newer_version_than_the_locked_one_is_not_taken",
    "environments::a_package_that_is_needed_by_its_address_is_not_built",
    "environments::a_server_keeps_eight_environments_for_packages_of_scripts",
    "environments::packages_are_wheels_that_the_lock_has_and_that_can_be_imported",
    "environments::settings_of_pip_and_uv_do_not_lead_packages_elsewhere",
    "environments::what_cannot_be_made_is_told",
    "pictures::a_script_that_sends_pictures_itself_sends_pictures_only_cold",
    "pictures::drawing_has_the_limits_of_the_script_cold",
    "pictures::figures_come_back_the_same_warm_and_cold",
    "prompts::each_prompt_verifies_true_claims_and_refutes_false_ones",
    "prompts::each_script_verifies_its_example",
    "soak::a_thousand_mixed_calls_leave_nothing_behind",
    "supply_chain::a_bill_is_written_however_the_session_ends",
    "warm::four_thousand_calls_each_get_their_own_result",
    "warm::honest_scripts_print_the_same_warm_and_cold",
];

/// A test, and the needs that a machine must meet to run it.
pub(crate) struct Test {
    name: String,
    needs: Vec<Need>,
    run: Box<dyn FnOnce() + Send>,
}

impl Test {
    /// Creates a test. `module` is a `module_path!()`.
    pub(crate) fn new(
        module: &str,
        name: &str,
        needs: &[Need],
        run: impl FnOnce() + Send + 'static,
    ) -> Self {
        let group = module.split_once("::").map_or("", |(_, group)| group);
        let name = format!("{group}::{name}");
        let time = LONG.contains(&name.as_str()).then_some(Need::Time);
        let week = WEEKLY.contains(&name.as_str()).then_some(Need::Week);
        let needs = needs.iter().cloned().chain(time).chain(week).collect();
        Self { name, needs, run: Box::new(run) }
    }

    fn group(&self) -> &str {
        self.name.rsplit_once("::").map_or("", |(group, _)| group)
    }
}

/// Defines the function `tests`, with which a module lists its tests for `main`.
///
/// ```ignore
/// tests! {
///     needs []: imports_go_one_way;
///     needs [Tier3, Root]: nothing_gets_out, limits_hold;
/// }
/// ```
macro_rules! tests {
    ($(needs $needs:tt: $($(#[$attribute:meta])* $name:ident),+ $(,)?;)+) => {
        /// The tests of this module.
        pub(crate) fn tests() -> Vec<$crate::harness::Test> {
            Vec::from([$($(
                $(#[$attribute])*
                $crate::harness::Test::new(
                    module_path!(),
                    stringify!($name),
                    &needs!($needs),
                    $name,
                )
            ),+),+])
        }
    };
}

macro_rules! needs {
    ([$($need:ident),*]) => { [$($crate::harness::Need::$need),*] };
}

/// Runs the tests that the command line selects.
pub(crate) fn run(tests: Vec<Test>) -> ExitCode {
    let mut arguments = Arguments::from_args();
    if arguments.test_threads.is_none() {
        let threads = std::env::var("RUST_TEST_THREADS").ok();
        let threads = threads.and_then(|threads| threads.parse().ok());
        // Tests mostly wait for processes, so run two for each processor.
        arguments.test_threads =
            threads.or_else(|| Some(thread::available_parallelism().ok()?.get() * 2));
    }
    refuse_unknown_names(&tests);
    let selected: Vec<Test> =
        tests.into_iter().filter(|test| is_selected(&arguments, test)).collect();
    let fails_instead = std::env::var_os("CI").is_some();
    let trials = if arguments.list {
        selected.into_iter().map(|test| Trial::test(test.name.clone(), named(test))).collect()
    } else {
        // Creates the environment first, because all tests then use its interpreter.
        let uses_packages = selected.iter().any(|test| test.needs.contains(&Need::Packages));
        let _ = uses_packages.then(|| machine::obstacle(&Need::Packages));
        report_obstacles(&selected, fails_instead);
        selected.into_iter().map(|test| trial(test, fails_instead)).collect()
    };
    let conclusion = libtest_mimic::run(&arguments, trials);
    report_times();
    super::remove_public_copies();
    conclusion.exit_code()
}

fn is_selected(arguments: &Arguments, test: &Test) -> bool {
    let has = |need: String| test.needs.iter().any(|own| format!("{own:?}") == need);
    if !machine::wanted().is_none_or(has) {
        return false;
    }
    // This filter must not depend on whether the test will be ignored, because finding that out may need an
    // interpreter.
    let trial = Trial::test(&test.name, || Ok(())).with_ignored_flag(true);
    !arguments.is_filtered_out(&trial)
}

/// Ends the process if [`LONG`], [`WEEKLY`] or one of the variables has an unknown name, because that name would have no effect.
#[expect(clippy::print_stderr, reason = "a harness reports")]
fn refuse_unknown_names(tests: &[Test]) {
    let needs: BTreeSet<String> =
        tests.iter().flat_map(|test| &test.needs).map(|need| format!("{need:?}")).collect();
    let mut named = machine::waived().into_iter().chain(machine::wanted());
    let unknown_need = named.find(|name| !needs.contains(name));
    let is_unknown = |name: &&&str| tests.iter().all(|test| test.name != **name);
    let unknown_test = LONG.iter().chain(&WEEKLY).find(is_unknown).map(|&name| name.to_owned());
    if let Some(name) = unknown_need.or(unknown_test) {
        let needs = Vec::from_iter(needs).join(", ");
        eprintln!("there is no test or need {name}; the needs are {needs}");
        exit(101);
    }
}

/// Prints a line for each need that the machine does not meet, with the reason and the ignored tests.
#[expect(clippy::print_stderr, reason = "a harness reports")]
fn report_obstacles(tests: &[Test], fails_instead: bool) {
    let mut lacking: BTreeMap<&Need, Vec<&Test>> = BTreeMap::new();
    for test in tests {
        for need in test.needs.iter().filter(|need| machine::obstacle(need).is_some()) {
            lacking.entry(need).or_default().push(test);
        }
    }
    for (need, tests) in lacking {
        let reason = machine::obstacle(need).unwrap_or_default();
        let groups: BTreeSet<&str> = tests.iter().map(|test| test.group()).collect();
        let groups = groups.into_iter().collect::<Vec<_>>().join(", ");
        let is_failure = fails_instead && !machine::is_waived(need);
        let end = if is_failure { "fail, because CI is set" } else { "are ignored" };
        eprintln!("no {need} here ({reason}): {} tests of {groups} need it and {end}", tests.len());
    }
}

/// The durations of the tests that have run.
static TIMES: Mutex<Vec<(Duration, String)>> = Mutex::new(Vec::new());

/// Prints the durations of all tests that took a second or more, the longest first.
#[expect(clippy::print_stderr, reason = "a harness reports")]
fn report_times() {
    let mut times = TIMES.lock().unwrap_or_else(PoisonError::into_inner);
    times.retain(|(time, _)| *time >= Duration::from_secs(1));
    times.sort_by(|one, other| other.cmp(one));
    for (time, name) in times.iter() {
        eprintln!("{:7.1} s  {name}", time.as_secs_f64());
    }
}

fn trial(test: Test, fails_instead: bool) -> Trial {
    let lacking = test.needs.iter().filter(|need| machine::obstacle(need).is_some());
    let lacking: Vec<&Need> = lacking.collect();
    let is_failure = fails_instead && !lacking.iter().any(|need| machine::is_waived(need));
    let lacking = lacking.into_iter().map(Need::to_string).collect::<Vec<_>>().join(" and ");
    if lacking.is_empty() {
        return Trial::test(test.name.clone(), named(test));
    }
    if is_failure {
        let reason = format!("it must not be ignored where CI is set, and needs {lacking}");
        return Trial::test(test.name, move || Err(reason.into()));
    }
    Trial::test(test.name.clone(), named(test))
        .with_kind(format!("needs {lacking}"))
        .with_ignored_flag(true)
}

thread_local! {
    /// The needs of the test that this thread runs, or `None` in other threads.
    static DECLARED: RefCell<Option<Vec<Need>>> = const { RefCell::new(None) };
}

/// Panics if a test uses a part of the machine without declaring the need for it. On another machine, such a test
/// would fail instead of being ignored.
#[track_caller]
pub(super) fn assert_declared(part: &str, is_declared_by: impl Fn(&Need) -> bool) {
    DECLARED.with_borrow(|needs| {
        let is_declared = needs.as_ref().is_none_or(|needs| needs.iter().any(is_declared_by));
        assert!(is_declared, "a test that uses this must declare it: `needs [{part}]`");
    });
}

/// Runs the test in a thread with its name, which appears in panics.
fn named(listed: Test) -> impl FnOnce() -> Result<(), Failed> {
    move || {
        let Test { name, needs, run } = listed;
        let run = move || {
            DECLARED.set(Some(needs));
            run();
        };
        let started = Instant::now();
        let result = thread::Builder::new().name(name.clone()).spawn(run)?.join();
        TIMES.lock().unwrap_or_else(PoisonError::into_inner).push((started.elapsed(), name));
        result.map_err(|panic| {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            Failed::from(text.unwrap_or("it panicked"))
        })
    }
}

//! Tests of the real binary, mostly over pipes.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking, and tables are long"
)]

#[macro_use]
mod harness;

mod abuse;
mod architecture;
mod background;
mod batch;
mod claims;
mod command_line;
mod corpus;
mod decisions;
mod determinism;
mod documents;
mod ends;
mod environment;
mod environments;
mod examples;
mod execution;
mod governance_store;
mod governed;
mod http;
mod inputs;
mod install;
mod lifecycle;
mod long_output;
mod once;
mod pictures;
mod probe;
mod prompts;
mod receipts;
mod requirements;
mod returned;
mod sandbox;
mod shared_jobs;
mod skills;
mod soak;
mod step_down;
mod supply_chain;
mod tasks;
mod terminal;
mod verdicts;
mod warm;
mod wire;

fn main() -> std::process::ExitCode {
    let modules = [
        abuse::tests(),
        architecture::tests(),
        background::tests(),
        batch::tests(),
        claims::tests(),
        command_line::tests(),
        corpus::tests(),
        corpus::tests_of_versions(),
        decisions::tests(),
        determinism::tests(),
        documents::tests(),
        ends::tests(),
        environment::tests(),
        environments::tests(),
        examples::tests(),
        execution::tests(),
        execution::cold::tests(),
        execution::warm::tests(),
        governance_store::tests(),
        governed::tests(),
        http::tests(),
        inputs::tests(),
        install::tests(),
        lifecycle::tests(),
        long_output::tests(),
        once::tests(),
        once::processes::tests(),
        pictures::tests(),
        probe::tests(),
        prompts::tests(),
        receipts::tests(),
        requirements::tests(),
        returned::tests(),
        sandbox::tests(),
        shared_jobs::tests(),
        skills::tests(),
        soak::tests(),
        step_down::tests(),
        supply_chain::tests(),
        tasks::tests(),
        terminal::tests(),
        verdicts::tests(),
        warm::tests(),
        wire::tests(),
    ];
    harness::run(modules.into_iter().flatten().collect())
}

//! Measures the time of the safety analysis: `cargo bench --bench analysis -- FILE…`, or `-- --worst`.
//!
//! For each file, prints one line of JSON: the name, the size in bytes, the steps of the analysis, and the median and
//! the minimum time of one analysis in nanoseconds. The time starts with the source text and ends with the findings.
//! With `--steps`, analyses each file only a few times, which is enough to count the steps.
//!
//! With `--worst`, measures the sources in `shapes.rs` at three sizes instead, and prints a table of the minimum times.
//! Names of shapes on the command line select the measured shapes. With `--worst --json`, prints JSON instead of the
//! table.
//!
//! `benches/analysis.py` compares the result with the Python implementation.

#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a bench prints its figures, and stops at what it cannot measure"
)]

#[path = "analysis/shapes.rs"]
mod shapes;

use std::fs;
use std::hint::black_box;
use std::time::{Duration, Instant};

use qwed_safety::{SOURCE_BYTES_MAX, analyze, steps_max};
use serde_json::{Value, json};
use shapes::shapes;

/// The minimum total time of the measurements of one text.
const MEASURED_FOR: Duration = Duration::from_millis(300);
/// The minimum number of measurements of one text.
const ROUNDS_MIN: usize = 3;
/// The minimum total time of the measurements of one shape at one size.
const WORST_FOR: Duration = Duration::from_millis(50);

/// The sizes at which each shape is measured, in bytes.
const SIZES: [usize; 3] = [256 << 10, 512 << 10, SOURCE_BYTES_MAX];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    let (options, names): (Vec<_>, Vec<_>) =
        arguments.into_iter().partition(|a| a.starts_with("--"));
    if !options.iter().any(|option| option == "--worst") {
        let is_short = options.iter().any(|option| option == "--steps");
        let at_least = if is_short { Duration::ZERO } else { MEASURED_FOR };
        for file in &names {
            let source = fs::read_to_string(file).unwrap();
            println!("{}", measure(file, &source, at_least));
        }
        return;
    }
    let is_json = options.iter().any(|option| option == "--json");
    for shape in shapes() {
        if !names.is_empty() && !names.iter().any(|name| name == shape.name) {
            continue;
        }
        let rows = SIZES.map(|bytes| measure(shape.name, &shape.source(bytes), WORST_FOR));
        if is_json {
            for row in rows {
                println!("{row}");
            }
        } else {
            print_growth(&rows);
        }
    }
}

/// Prints one row of the table: the times of a shape at the three sizes, the exponent with which the time grows from
/// the second size to the third, the used share of the step limit, and the number of findings.
fn print_growth(rows: &[Value]) {
    let of = |row: &Value, key: &str| row.get(key).and_then(Value::as_f64).unwrap();
    let seconds: Vec<f64> = rows.iter().map(|row| of(row, "least_ns") / 1e9).collect();
    let [first, second, third] = *seconds.as_slice() else { return };
    let last = rows.last().unwrap();
    println!(
        "{:38} {first:7.3} s {second:7.3} s {third:7.3} s  exponent {:5.2}  steps {:3.0} %  findings {:2}",
        last.get("name").and_then(Value::as_str).unwrap(),
        (third / second).log2(),
        of(last, "steps") / of(last, "steps_max") * 100.0,
        of(last, "findings"),
    );
}

fn measure(name: &str, source: &str, at_least: Duration) -> Value {
    // The first analysis is not measured, because it also builds the tables that all analyses use.
    let analysis = analyze(source).unwrap();
    let mut times = Vec::new();
    let started = Instant::now();
    while started.elapsed() < at_least || times.len() < ROUNDS_MIN {
        let begun = Instant::now();
        black_box(analyze(black_box(source)).unwrap());
        times.push(begun.elapsed());
    }
    times.sort_unstable();
    let median = times.get(times.len() / 2).unwrap().as_nanos();
    let least = times.first().unwrap().as_nanos();
    json!({
        "name": name, "bytes": source.len(), "findings": analysis.findings.len(),
        "steps": analysis.steps, "steps_max": steps_max(source.len()),
        "median_ns": u64::try_from(median).unwrap(), "least_ns": u64::try_from(least).unwrap(),
    })
}

//! Times the safety analysis: `cargo bench --bench analysis -- FILE…`, or `--worst`.
//!
//! For each file one line of JSON: its name, its size in bytes, and the median and least time of one
//! analysis in nanoseconds, from text to findings, without the start of a process. With `--worst`
//! the same for texts that are hard on parsers, made at three sizes, to show that time grows
//! linearly. `analysis.py` puts the Python implementation beside it.

#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a bench prints its figures, and stops at what it cannot measure"
)]

use std::fs;
use std::hint::black_box;
use std::time::{Duration, Instant};

use qwed_mcp::safety::analyze;
use serde_json::json;

/// How long one text is measured at least.
const MEASURED_FOR: Duration = Duration::from_millis(300);
/// How many times one text is measured at least.
const ROUNDS_MIN: usize = 5;

/// The sizes at which growth is shown, in KiB.
const SIZES_KIB: [usize; 3] = [64, 256, 1024];

/// The start, the repeated middle and the end of texts that are hard in one way each.
const WORST: &[(&str, &str, &str, &str)] = &[
    ("minus signs", "x = ", "-", "1"),
    ("sum", "x = 1", "+1", ""),
    ("attributes", "x = a", ".b", ""),
    ("lambdas", "x = ", "lambda:", "0"),
    ("brackets", "x = ", "[", ""),
    ("elif chain", "if x: pass\n", "elif x == 1: pass\n", ""),
    ("decorators", "", "@a\n", "def f(): pass"),
    ("calls of eval", "", "eval('1')\n", ""),
    ("names of names", "a = 0\n", "a = a.b(a)[a]\n", ""),
    ("unpacked names", "import os\n", "a, b, c = c, os, a\n", ""),
    ("texts put together", "t = 'a'\n", "t = t + 'b' + t[1:2]\n", ""),
    ("getattr", "import os\n", "getattr(os, 'sys' + 'tem')\n", ""),
    ("functions", "", "def f(a, b=1):\n    return g(a)\n", ""),
    ("classes", "", "class A:\n    x = 1\n    def f(self): return self.x\n", ""),
    ("comprehensions", "", "x = [chr(c) for c in [1, 2, 3, 4]]\n", ""),
    ("plain code", "import math\n", "x = math.sqrt(y) + max(a, b) * f(c, d=2)\n", ""),
];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    if arguments.iter().any(|argument| argument == "--worst") {
        for (name, start, middle, end) in WORST {
            for kib in SIZES_KIB {
                let count = (kib * 1024 - start.len() - end.len()) / middle.len();
                measure(name, &format!("{start}{}{end}", middle.repeat(count)));
            }
        }
        return;
    }
    for file in &arguments {
        measure(file, &fs::read_to_string(file).unwrap());
    }
}

fn measure(name: &str, source: &str) {
    // Once before, for the tables that are made at their first use.
    let findings = analyze(source).unwrap().findings.len();
    let mut times = Vec::new();
    let started = Instant::now();
    while started.elapsed() < MEASURED_FOR || times.len() < ROUNDS_MIN {
        let begun = Instant::now();
        black_box(analyze(black_box(source)).unwrap());
        times.push(begun.elapsed());
    }
    times.sort_unstable();
    let median = times.get(times.len() / 2).unwrap().as_nanos();
    let least = times.first().unwrap().as_nanos();
    println!(
        "{}",
        json!({ "name": name, "bytes": source.len(), "findings": findings,
                "median_ns": u64::try_from(median).unwrap(),
                "least_ns": u64::try_from(least).unwrap() })
    );
}

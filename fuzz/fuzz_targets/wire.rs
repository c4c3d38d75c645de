//! Checks that no line crashes the parser of JSON-RPC messages.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|line: &[u8]| qwed_mcp::read_line_for_fuzzing(line));

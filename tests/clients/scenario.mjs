// The checks that every TypeScript SDK runs against the server; each adapter drives one SDK. The checks, their order
// and their data are the same as in scenario.py.
//
// An adapter is a function from `{command, args, env}` to a connection:
//   protocolVersion, serverName, instructions
//   listTools()                                   the tools as in the message
//   prompt(name, values)                          {names, text}: all prompts, and this one with the values
//   call(tool, args, {timeoutMs, onProgress})     {isError, texts, pictures, meta}; rejects with `ClientTimedOut`
//   close()

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync } from 'node:fs';
import { constants } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { inflateSync } from 'node:zlib';

import { Recording, descendants } from './recording.mjs';
import { Report, equal, show } from './report.mjs';

const GOVERNED_TOOLS = ['run_pytest', 'get_evidence', 'list_artifacts', 'get_artifact_content'];
const STATELESS_VERSION = '2026-07-28';
const DECISION_KEY = 'qwed.ai/decision';
const EXECUTION_KEY = 'qwed.ai/execution';

const INSTRUCTIONS_CHARS_MAX = 800;
const SESSION_SECONDS_MAX = 90;
const CLIENT_TIMEOUT_MS = 1500;
const GONE_MS_MAX = 1000;
const NEXT_CALL_MS_MAX = 5000;
const INTERPRETER_START_MS_MAX = 1000;
const CLOSE_SECONDS_MAX = 2;

const SLEEPING = 'import time\ntime.sleep(20)';
const LONG_RUNNING = "import time\ntime.sleep(2.5)\nprint('rested')";
const BACKGROUND = 'import time\ntime.sleep(0.7)\nprint(6*7)';
const ENDLESS_BACKGROUND = 'import time\ntime.sleep(60)';
const PLOT = 'import matplotlib.pyplot as plt\nplt.plot([1, 2, 3], [1, 4, 9])\nplt.show()';
const UUID = '[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}';
export const JOB_PLACED = new RegExp(
  `^Verification order is being placed for the request (${UUID})\\.` +
    " Check back using the 'verification_status' tool\\.$",
);

const data = (name) => JSON.parse(readFileSync(new URL(name, import.meta.url), 'utf8'));
const CASES = data('cases.json');
export const TOOLS = data('tools.json');

// The client's timeout has expired. The client sends a cancel notification.
export class ClientTimedOut extends Error {}

// Runs all checks, and exits. The script's arguments are the server binary and a folder for recordings.
export async function run(client, protocolVersion, connect) {
  const report = new Report(client);
  const [binary, recordings] = process.argv.slice(2);

  const idle = recordedServer(binary, join(recordings, 'session'));
  await report.check(
    'a session opens and closes without an error',
    () =>
      connected(connect, idle, async (connection) => {
        const recording = await Recording.ofSession(idle.recordings);
        await checkNegotiation(report, connection, recording, protocolVersion);
        await checkTools(report, connection);
        await checkPrompts(report, connection);
        await checkCases(report, connection);
        await checkBackgroundJob(report, connection);
        await checkClientTimeout(report, connection, recording);
        await checkProgress(report, connection);
      }),
    SESSION_SECONDS_MAX,
  );
  await checkWire(report, idle.recordings, protocolVersion);
  if (protocolVersion === STATELESS_VERSION) await checkProbe(report, idle.recordings);
  await checkClose(report, 'after a session', idle.recordings);

  const starting = recordedServer(binary, join(recordings, 'close-at-start-of-job'));
  await report.check('a session closes while a job starts', () =>
    connected(connect, starting, (connection) => placeJob(connection, ENDLESS_BACKGROUND)),
  );
  await checkClose(report, 'at the start of a job', starting.recordings);

  const busy = recordedServer(binary, join(recordings, 'close-with-job'));
  await report.check('a session closes while a job is running', () =>
    connected(connect, busy, async (connection) => {
      await waitUntilRunning(connection, await placeJob(connection, ENDLESS_BACKGROUND));
      // "Running" means that the job has its turn. Its processes start a moment later.
      await sleep(INTERPRETER_START_MS_MAX);
      const recording = await Recording.ofSession(busy.recordings);
      assert.ok(descendants(recording.one('start').server_pid).size > 0, 'the job has no process');
    }),
  );
  await checkClose(report, 'with a job running', busy.recordings);

  await checkGoverned(report, connect, binary, recordings);
  await checkPicture(report, connect, binary, recordings);
  process.exit(report.failed ? 1 : 0);
}

// Checks the governed tools, with and without a token in the client's configuration.
async function checkGoverned(report, connect, binary, recordings) {
  const folder = process.env.GOVERNED;
  const own = readFileSync(join(folder, 'token'), 'utf8').trim();
  for (const [name, token] of [['with a token', own], ['without a token', '']]) {
    const server = recordedServer(binary, join(recordings, `governed-${name.replaceAll(' ', '-')}`));
    Object.assign(server.env, {
      QWED_MCP_POLICY: join(folder, 'policy.toml'),
      QWED_MCP_DATA_DIR: join(folder, 'data'),
      QWED_MCP_PYTHON: process.env.GOVERNED_PYTHON,
      QWED_MCP_AUTH_TOKEN: token,
    });
    await report.check(
      `governed tools ${name}`,
      () =>
        connected(connect, server, async (connection) => {
          const tools = (await connection.listTools()).map((tool) => tool.name);
          equal('tools', tools, [...Object.keys(TOOLS), ...GOVERNED_TOOLS]);
          let reply;
          try {
            reply = await connection.call('run_pytest', { test_path: 'test_one.py' });
          } catch (error) {
            equal('code', error.code, -32001);
            assert.ok(!token, `refused with a token: ${error}`);
            return;
          }
          assert.ok(token && reply.texts[0].startsWith('Status: passed, exit code 0, judged: in-process\n1 passed in '), show(reply));
        }),
      SESSION_SECONDS_MAX,
    );
    await checkClose(report, `of governed tools ${name}`, server.recordings);
  }
}

async function checkPicture(report, connect, binary, recordings) {
  const server = recordedServer(binary, join(recordings, 'picture'));
  server.env.QWED_MCP_PYTHON = process.env.GOVERNED_PYTHON;
  await report.check(
    'a plot comes back as a picture that can be decoded',
    () =>
      connected(connect, server, async (connection) => {
        const reply = await connection.call('execute_python_code', { code: PLOT });
        equal('texts', reply.texts, ['Execution completed successfully.']);
        equal('types of pictures', reply.pictures.map((block) => block.mimeType), ['image/png']);
        const png = Buffer.from(reply.pictures[0].data, 'base64');
        const [described] = reply.meta[EXECUTION_KEY].pictures;
        equal('SHA-256', createHash('sha256').update(png).digest('hex'), described.sha256);
        equal('bytes', png.length, described.bytes);
        equal('bytes of pixels', pixelsOf(png).length, described.height * (1 + 4 * described.width));
      }),
    SESSION_SECONDS_MAX,
  );
  await checkClose(report, 'after a plot', server.recordings);
}

// Returns the rows of a PNG. Each row begins with a byte for its filter.
function pixelsOf(png) {
  const packed = [];
  for (let at = 8; at < png.length; at += 12 + png.readUInt32BE(at)) {
    const isData = png.toString('latin1', at + 4, at + 8) === 'IDAT';
    if (isData) packed.push(png.subarray(at + 8, at + 8 + png.readUInt32BE(at)));
  }
  return inflateSync(Buffer.concat(packed));
}

// Calls `use` with a connection, and closes the connection even if `use` fails.
async function connected(connect, server, use) {
  const connection = await connect(server);
  try {
    await use(connection);
  } finally {
    await connection.close();
  }
}

// Returns the command that starts the server with the recorder, and the folder of the recordings.
function recordedServer(binary, recordings) {
  mkdirSync(recordings, { recursive: true });
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => name.startsWith('QWED_')));
  return { command: process.env.RECORDER, args: [recordings, binary], env, recordings };
}

async function checkNegotiation(report, connection, recording, protocolVersion) {
  await report.check(`negotiates ${protocolVersion}`, async () => {
    equal('protocol version', connection.protocolVersion, protocolVersion);
    assert.ok(connection.serverName, 'the server has no name');
    const { length } = connection.instructions;
    assert.ok(0 < length && length < INSTRUCTIONS_CHARS_MAX, `instructions have ${length} characters`);
    // Checks the messages too, because the SDK may report the wrong era.
    const methods = recording.sent.map((message) => message.method);
    equal('initialize sent', methods.includes('initialize'), protocolVersion !== STATELESS_VERSION);
  });
}

async function checkTools(report, connection) {
  await report.check('lists exactly the two tools, with plain schemas and honest annotations', async () => {
    const tools = await connection.listTools();
    equal('tools', tools.map((tool) => tool.name), Object.keys(TOOLS));
    for (const tool of tools) checkTool(tool, TOOLS[tool.name]);
  });
}

// Checks a tool. `expected` has the types of the properties, `required` and the annotations.
export function checkTool({ name, description, inputSchema, outputSchema, annotations }, expected) {
  assert.ok(description, `${name} has no description`);
  equal(`${name}: outputSchema`, outputSchema, undefined);
  noOtherKeys(name, inputSchema, ['type', 'properties', 'required', 'additionalProperties']);
  equal(`${name}: type`, inputSchema.type, 'object');
  equal(`${name}: required`, inputSchema.required, expected.required);
  const properties = Object.entries(inputSchema.properties);
  const types = Object.fromEntries(properties.map(([property, facts]) => [property, facts.type]));
  equal(`${name}: types of the properties`, types, expected.properties);
  for (const [property, facts] of properties) {
    // An object has an example of a property, because the Gemini API refuses an object without properties.
    const ofObjects = facts.type === 'object' ? ['properties'] : [];
    noOtherKeys(`${name}.${property}`, facts, ['type', 'description', 'default', ...ofObjects]);
    assert.ok(facts.description, `${name}.${property} has no description`);
  }
  equal(`${name}: annotations`, pick(annotations, expected.annotations), expected.annotations);
}

function noOtherKeys(where, schema, known) {
  const odd = Object.keys(schema).filter((key) => !known.includes(key));
  assert.ok(odd.length === 0, `${where}: unexpected keys in the schema: ${odd}`);
}

// Returns the values of `object` for the keys of `like`.
function pick(object, like) {
  return Object.fromEntries(Object.keys(like).map((key) => [key, object?.[key]]));
}

async function checkPrompts(report, connection) {
  await report.check('lists the prompts, and fills one in', async () => {
    const { names, text } = await connection.prompt('check_calculation', { calculation: '6 * 7', claimed: '42' });
    assert.ok(names.includes('verify_math') && names.length > 15, show(names));
    assert.ok(text.includes('\ncalculation = "6 * 7"\nclaimed = "42"\n'), text);
  });
}

async function checkCases(report, connection) {
  for (const expected of CASES) {
    await report.check(expected.check, async () => {
      const reply = await connection.call(expected.tool, expected.arguments);
      equal('number of text blocks', reply.texts.length, expected.content.length);
      expected.content.forEach((pattern, i) => {
        const text = reply.texts[i];
        assert.match(text, new RegExp(`^(?:${pattern})$`), `text is ${show(text)}, expected ${pattern}`);
      });
      equal('isError', reply.isError, expected.is_error);
      checkMeta(reply.meta, expected);
    });
  }
}

function checkMeta(meta, expected) {
  const decision = meta[DECISION_KEY];
  const execution = meta[EXECUTION_KEY];
  assert.ok(decision, `no ${DECISION_KEY} in _meta`);
  equal('decision', pick(decision, expected.decision), expected.decision);
  assert.match(decision.verification_id, /^[0-9a-f]{64}$/, 'verification_id is no SHA-256');
  assert.ok(!('normalized_arguments' in decision), 'the decision in _meta carries the arguments');
  if (expected.execution === null) {
    equal('execution', execution, undefined);
  } else {
    assert.ok(execution, `no ${EXECUTION_KEY} in _meta`);
    equal('execution', pick(execution, expected.execution), expected.execution);
    assert.ok(execution.duration_ms > 0, 'the execution took no time');
  }
}

async function placeJob(connection, code) {
  const reply = await connection.call('execute_python_code', { code, background: true });
  equal('number of text blocks', reply.texts.length, 1);
  const placed = JOB_PLACED.exec(reply.texts[0]);
  assert.ok(placed, `text is ${show(reply.texts[0])}`);
  equal('isError', reply.isError, false);
  return placed[1];
}

async function statusOf(connection, jobId) {
  const reply = await connection.call('verification_status', { job_id: jobId });
  equal('number of text blocks', reply.texts.length, 1);
  return reply.texts[0];
}

async function waitUntilRunning(connection, jobId) {
  for (;;) {
    const status = await statusOf(connection, jobId);
    if (status === 'Status: running...') return;
    equal('status', status, 'Status: queued...');
    await sleep(50);
  }
}

async function checkBackgroundJob(report, connection) {
  await report.check('background job polled to success', async () => {
    const jobId = await placeJob(connection, BACKGROUND);
    // The test must see the status "running" before the job ends.
    await waitUntilRunning(connection, jobId);
    let status;
    while ((status = await statusOf(connection, jobId)) === 'Status: running...') await sleep(50);
    equal('status', status, 'Status: success\n\nResult:\nSTDOUT:\n42\n\nExecution completed successfully.');
  });
}

// Checks that the processes of a cancelled call end. These are the descendants of the recorder that did not exist
// before the call.
async function checkClientTimeout(report, connection, recording) {
  const recorderPid = recording.one('start').recorder_pid;
  await report.check("client timeout: the cancelled call's processes are gone within a second", async () => {
    const before = descendants(recorderPid);
    const call = connection.call('execute_python_code', { code: SLEEPING }, { timeoutMs: CLIENT_TIMEOUT_MS });
    const ended = assert.rejects(call, ClientTimedOut);
    await sleep(CLIENT_TIMEOUT_MS * 0.6);
    const during = descendants(recorderPid);
    await ended;
    const deadline = performance.now() + GONE_MS_MAX;

    const started = [...during.keys()].filter((pid) => !before.has(pid));
    assert.ok(started.length > 0, 'no process was seen during the call');
    for (;;) {
      const now = descendants(recorderPid);
      const remaining = started.filter((pid) => now.has(pid));
      if (remaining.length === 0) break;
      assert.ok(performance.now() < deadline, `still there: ${remaining.map((pid) => during.get(pid))}`);
      await sleep(10);
    }
  });

  await report.check('client timeout: the next call works at once', async () => {
    const call = connection.call('execute_python_code', { code: "print('next')" }, { timeoutMs: NEXT_CALL_MS_MAX });
    equal('texts', (await call).texts, ['STDOUT:\nnext\n\nExecution completed successfully.']);
  });
}

async function checkProgress(report, connection) {
  await report.check('progress: at least two notifications, strictly rising', async () => {
    const seen = [];
    const onProgress = (progress) => seen.push(progress);
    const reply = await connection.call('execute_python_code', { code: LONG_RUNNING }, { onProgress });
    equal('texts', reply.texts, ['STDOUT:\nrested\n\nExecution completed successfully.']);
    assert.ok(seen.length >= 2, `progress notifications: ${show(seen)}`);
    assert.ok(seen.every((value, i) => i === 0 || seen[i - 1] < value), `progress does not rise: ${show(seen)}`);
    // During the pause, a surplus notification would arrive. `checkWire` would find it.
    await sleep(1200);
  });
}

// Checks the messages that the SDK does not show.
async function checkWire(report, recordings, protocolVersion) {
  await report.check('wire: every line on stdout is a JSON-RPC message', async () => {
    assert.ok((await Recording.ofClosedSession(recordings)).received.length > 0, 'nothing was received');
  });

  await report.check('wire: the timed-out call was cancelled and never answered', async () => {
    const recording = await Recording.ofClosedSession(recordings);
    const { id } = recording.callWith(SLEEPING);
    const cancels = recording.sent.filter((message) => message.method === 'notifications/cancelled');
    equal('cancelled requests', cancels.map((message) => message.params.requestId), [id]);
    equal('replies to it', recording.received.filter((message) => message.id === id), []);
  });

  await report.check('wire: no progress after the result', async () => {
    const recording = await Recording.ofClosedSession(recordings);
    const { id, params } = recording.callWith(LONG_RUNNING);
    const token = params._meta?.progressToken;
    assert.ok(token !== undefined, 'the client sent no progressToken');
    const story = recording.received.flatMap((message) => {
      if (message.id === id) return ['result'];
      const isProgress = message.method === 'notifications/progress' && message.params.progressToken === token;
      return isProgress ? ['progress'] : [];
    });
    equal('place of the result', story.indexOf('result'), story.length - 1);
  });

  if (protocolVersion === STATELESS_VERSION) {
    await report.check('wire: results have the fields that the stateless era requires', async () => {
      const recording = await Recording.ofClosedSession(recordings);
      const toolLists = recording.sent.filter((m) => m.method === 'tools/list').map((m) => m.id);
      for (const message of recording.received.filter((m) => 'id' in m)) {
        assert.ok('result' in message, `an error came back: ${show(message)}`);
        equal('resultType', message.result.resultType, 'complete');
        const demanded = toolLists.includes(message.id) ? ['ttlMs', 'cacheScope'] : [];
        const missing = demanded.filter((key) => !(key in message.result));
        assert.ok(missing.length === 0, `tools/list lacks ${missing}`);
      }
    });
  }
}

// This SDK starts a separate server process to negotiate the version, and ends it with a signal.
async function checkProbe(report, recordings) {
  await report.check('the server of the version probe exits with 0 on SIGTERM', async () => {
    const probes = Recording.in(recordings).filter((r) => r.sent.some((m) => m.method === 'server/discover'));
    assert.ok(probes.length === 1, `${probes.length} recordings with server/discover, expected one`);
    equal('signals', probes[0].all('signal').map((event) => event.number), [constants.signals.SIGTERM]);
    equal('exit code', probes[0].one('exit').code, 0);
    equal('processes left over', probes[0].one('left_over').processes, []);
  });
}

async function checkClose(report, when, recordings) {
  await report.check(`close ${when}: the server exits with 0 within two seconds, unforced`, async () => {
    const recording = await Recording.ofClosedSession(recordings);
    equal('exit code', recording.one('exit').code, 0);
    equal('signals needed', recording.all('signal'), []);
    const seconds = recording.one('exit').at - recording.one('end_of_input').at;
    assert.ok(seconds < CLOSE_SECONDS_MAX, `it took ${seconds.toFixed(2)} s`);
  });
  await report.check(`close ${when}: no process is left over`, async () => {
    const recording = await Recording.ofClosedSession(recordings);
    equal('processes', recording.one('left_over').processes, []);
  });
}

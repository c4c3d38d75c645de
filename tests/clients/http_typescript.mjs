// Runs the TypeScript SDKs against the server over HTTP: `@modelcontextprotocol/sdk` 1.x, or its successor 2.x in the
// given era.
//
//     http_typescript.mjs SERVER RECORDINGS 1 | legacy | auto

import { spawn } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';

import { Report, equal } from './report.mjs';

const [binary, , mode] = process.argv.slice(2);
const VERSION = { 1: '2025-11-25', legacy: '2025-11-25', auto: '2026-07-28' }[mode];

const server = spawn(binary, ['serve', '--http', '127.0.0.1:0', '--drain', '0'], {
  env: { QWED_MCP_WARM: 'off', ...process.env }, stdio: ['ignore', 'ignore', 'pipe'],
});
const url = await new Promise((found, failed) => {
  createInterface({ input: server.stderr }).on('line', (line) => {
    const address = line.split('serving over HTTP clients=')[1];
    if (address) found(new URL(address.trim()));
  }).on('close', () => failed(new Error('the server ended')));
});

async function connect() {
  if (mode === '1') {
    const { Client } = await import('@modelcontextprotocol/sdk/client/index.js');
    const { StreamableHTTPClientTransport } = await import('@modelcontextprotocol/sdk/client/streamableHttp.js');
    const client = new Client({ name: 'qwed-mcp-client-tests', version: '1.0.0' });
    const transport = new StreamableHTTPClientTransport(url);
    await client.connect(transport);
    return { client, version: transport.protocolVersion };
  }
  const { Client, StreamableHTTPClientTransport } = await import('@modelcontextprotocol/client');
  const client = new Client({ name: 'qwed-mcp-client-tests', version: '1.0.0' }, { versionNegotiation: { mode } });
  const transport = new StreamableHTTPClientTransport(url);
  await client.connect(transport);
  return { client, version: client.getNegotiatedProtocolVersion?.() ?? transport.protocolVersion };
}

// Returns the PIDs of the server's descendants.
function descendants() {
  const parents = readdirSync('/proc').filter((name) => /^\d+$/.test(name)).flatMap((pid) => {
    try {
      return [[Number(pid), Number(/^PPid:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))[1])]];
    } catch {
      return [];
    }
  });
  const found = new Set([server.pid]);
  for (let size = 0; size !== found.size;) {
    size = found.size;
    for (const [pid, parent] of parents) if (found.has(parent)) found.add(pid);
  }
  found.delete(server.pid);
  return found;
}

const report = new Report(`http-typescript-${mode}`);
const { client, version } = await connect();
const call = async (code, options, inputs) => {
  const args = [{ name: 'execute_python_code', arguments: { code, inputs } }];
  const result = mode === '1' ? await client.callTool(...args, undefined, options) : await client.callTool(...args, options);
  return [result.isError ?? false, result.content.map(({ text }) => text)];
};

await report.check('connects, and lists the tools', async () => {
  equal('version', version, VERSION);
  equal('tools', (await client.listTools()).tools.map(({ name }) => name), ['execute_python_code', 'verification_status']);
});
await report.check('a correct script, a refused script', async () => {
  equal('answer', await call('print(6 * 7)'), [false, ['STDOUT:\n42\n\nExecution completed successfully.']]);
  const [isError, texts] = await call("import os; os.system('id')");
  equal('refused', [isError, texts[1]], [true, 'Error code: QWED-MCP-RISK-005']);
});
await report.check('inputs of 3 MB', async () => {
  const inputs = { 'a.txt': 'é'.repeat(400_000), b: { base64: 'AAAA'.repeat(250_000) } };
  const answer = await call("print(len(open('a.txt').read()), len(inputs['b']))", undefined, inputs);
  equal('answer', answer, [false, ['STDOUT:\n400000 750000\n\nExecution completed successfully.']]);
});
await report.check('rising progress, and then the result', async () => {
  const seen = [];
  const [, texts] = await call("import time\ntime.sleep(2.2)\nprint('rested')", { onprogress: ({ progress }) => seen.push(progress) });
  equal('texts', texts, ['STDOUT:\nrested\n\nExecution completed successfully.']);
  if (seen.length < 2 || seen.some((it, index) => index && it <= seen[index - 1])) throw new Error(`progress: ${seen}`);
});
await report.check('a call that times out at the client is killed, and the next call works', async () => {
  const before = descendants();
  const outcome = await call('import time\ntime.sleep(20)', { timeout: 1500 }).then(() => 'ended', () => 'gave up');
  equal('outcome', outcome, 'gave up');
  for (const began = Date.now(); [...descendants()].some((pid) => !before.has(pid));) {
    if (Date.now() - began > 8000) throw new Error('it goes on');
    await new Promise((later) => setTimeout(later, 50));
  }
  equal('next', (await call("print('next')"))[0], false);
});
await client.close();
server.kill();
process.exit(report.failed ? 1 : 0);

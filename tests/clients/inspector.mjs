// Runs the command line of the MCP inspector, with which people debug servers. The inspector converts arguments
// according to the listed schema. So this also tests that the schema is simple enough.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';

import { Report, equal } from './report.mjs';
import { JOB_PLACED, TOOLS, checkTool } from './scenario.mjs';

const binary = process.argv[2];
const report = new Report('inspector');

async function inspect(...options) {
  const inspector = new URL('node_modules/.bin/mcp-inspector', import.meta.url).pathname;
  const { stdout } = await promisify(execFile)(inspector, ['--cli', binary, ...options], { timeout: 30_000 });
  return JSON.parse(stdout);
}

await report.check('--method tools/list shows exactly the two tools', async () => {
  const { tools } = await inspect('--method', 'tools/list');
  equal('tools', tools.map((tool) => tool.name), Object.keys(TOOLS));
  for (const tool of tools) checkTool(tool, TOOLS[tool.name]);
});

const call = ['--method', 'tools/call', '--tool-name', 'execute_python_code'];

await report.check('--method tools/call shows the output of a script', async () => {
  const result = await inspect(...call, '--tool-arg', 'code=print(6*7)');
  equal('content', result.content, [
    { type: 'text', text: 'STDOUT:\n42\n\nExecution completed successfully.' },
  ]);
  equal('isError', result.isError ?? false, false);
});

await report.check('--tool-arg background=true arrives as a boolean', async () => {
  const result = await inspect(...call, '--tool-arg', 'code=print(6*7)', 'background=true');
  assert.match(result.content[0].text, JOB_PLACED);
});

await report.check('--tool-arg inputs={…} arrives as an object', async () => {
  const code = "code=print(open('a.txt').read(), inputs['b'])";
  const result = await inspect(...call, '--tool-arg', code, 'inputs={"a.txt": "é", "b": {"json": [1]}}');
  equal('text', result.content[0].text, 'STDOUT:\né [1]\n\nExecution completed successfully.');
});

await report.check('--method prompts/get fills a prompt in', async () => {
  const values = ['calculation=6 * 7', 'claimed=42'];
  const { messages } = await inspect('--method', 'prompts/get', '--prompt-name', 'check_calculation', '--prompt-args', ...values);
  assert.ok(messages[0].content.text.includes('\ncalculation = "6 * 7"\nclaimed = "42"\n'), JSON.stringify(messages));
});

process.exit(report.failed ? 1 : 0);

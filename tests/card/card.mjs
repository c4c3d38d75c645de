// Tests the card in Chromium: its texts for results of the real server, its layout, and that no output runs as code.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';

import { Chromium } from './chromium.mjs';
import { Report, equal } from './report.mjs';

const [server, work] = process.argv.slice(2);
const URI = 'ui://qwed-mcp/verification.html';
const TOOL = 'execute_python_code';

// The policy of a host for a page that requests nothing (MCP Apps, "Content Security Policy").
const POLICY = "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; "
  + "img-src 'self' data:; media-src 'self' data:; connect-src 'none'";
// Some style variables of a host.
const DARK_HOST = {
  theme: 'dark',
  styles: {
    variables: {
      '--color-background-primary': '#10151c', '--color-background-secondary': '#19212b',
      '--color-text-primary': '#e8edf3', '--color-text-secondary': '#a7b3c1', '--color-border-tertiary': '#2a3542',
      '--border-radius-md': '4px',
    },
  },
};
const LIGHT_HOST = { theme: 'light' };

const PROOF = `import sympy

# (a + b)^3 = a^3 + 3 a^2 b + 3 a b^2 + b^3
a, b = sympy.symbols("a b")
left = (a + b) ** 3
right = a**3 + 3 * a**2 * b + 3 * a * b**2 + b**3
assert sympy.simplify(left - right) == 0
print("The identity holds for all a and b.")
`;
const SCRIPTS = {
  success: 'from fractions import Fraction\n\nimport matplotlib.pyplot as plt\n\n# 1/2 + 1/4 + 1/8 + ... stays below 1\n'
    + 'total, sums = Fraction(0), []\nfor n in range(1, 21):\n    total += Fraction(1, 2**n)\n    assert total < 1\n    sums.append(float(total))\n'
    + 'plt.plot(range(1, 21), sums, marker="o")\nplt.axhline(1, color="gray", linestyle="--")\nplt.xlabel("terms")\nplt.ylabel("sum")\nplt.show()\n'
    + 'print(f"after 20 terms: {sums[-1]:.9f}")\n',
  refuted: '# "n*n + n + 41 is prime for every n"\ndef is_prime(n):\n    return n > 1 and all(n % d for d in range(2, int(n**0.5) + 1))\n\n'
    + 'for n in range(100):\n    value = n * n + n + 41\n    assert is_prime(value), f"n = {n}: {value} is not prime"\n',
  refused: 'import json\nimport os\n\nrates = json.loads(\'{"EUR": 1.08}\')\nos.system("curl https://rates.example")\n'
    + 'assert eval("rates[\'EUR\']") > 1\nprint("done")\n',
  timeout: 'n = 27\nprint("looking for a counterexample to Collatz", flush=True)\nwhile True:\n    n += 1\n',
  flood: 'for line in range(40_000):\n    print(f"{line:6d} {line * line:12d} ........")\n',
};

const report = new Report('card');
const connect = async (settings) => {
  const client = new Client({ name: 'card-test', version: '1' });
  await client.connect(new StdioClientTransport({ command: server, args: [], env: { ...process.env, QWED_MCP_WARM: 'off', ...settings } }));
  return client;
};
const client = await connect({ QWED_MCP_PYTHON: process.env.PLOTTING_PYTHON });
const impatient = await connect({ QWED_MCP_TEST_SYNC_TIMEOUT_MS: '3000' });
const hostScript = await readFile(join(work, 'host.js'), 'utf8');
await writeFile(join(work, 'host.html'), `<!doctype html><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${POLICY}">
<style>body { margin: 0 } iframe { display: block; width: 100%; border: 0 }</style>
<body><script>${hostScript.replaceAll('</script', '<\\/script')}</script></body>`);
const chromium = await Chromium.start(join(work, 'profile'));

const call = (code, more = {}) => client.callTool({ name: TOOL, arguments: { code, ...more } });
// The results of these scripts, cached.
const results = {};
const resultOf = async (name) => structuredClone(
  await (results[name] ??= (name === 'timeout' ? impatient : client).callTool({ name: TOOL, arguments: { code: SCRIPTS[name] } })));
const text = (selector) => chromium.evaluate(`document.querySelector(${JSON.stringify(selector)})?.innerText`, { inFrame: true });
const all = (selector, of = 'innerText') => chromium.evaluate(
  `[...document.querySelectorAll(${JSON.stringify(selector)})].map((element) => element.${of})`, { inFrame: true });
const isShown = (id) => chromium.evaluate(`!document.getElementById(${JSON.stringify(id)}).hidden`, { inFrame: true });
const said = async () => [await text('h1'), await text('header p')];

// Reloads the host with this width and theme, and shows the card in it.
async function open({ html, steps, width = 720, hostContext = LIGHT_HOST }) {
  await chromium.send('Emulation.setDeviceMetricsOverride', { width, height: 900, deviceScaleFactor: 1, mobile: false });
  await chromium.send('Emulation.setEmulatedMedia', {
    features: [{ name: 'prefers-reduced-motion', value: 'reduce' }, { name: 'prefers-color-scheme', value: hostContext.theme ?? 'light' }],
  });
  await chromium.send('Page.navigate', { url: `file://${join(work, 'host.html')}` });
  await until('the host is there', () => chromium.evaluate('document.readyState === "complete" && typeof window.show === "function"'));
  await chromium.evaluate(`window.show(${JSON.stringify({ html: html ?? card, hostContext, steps })})`);
  await settled();
  equal('exceptions', chromium.errors(), []);
  equal('problems of the bridge', await chromium.evaluate('window.problems'), []);
}

const showResult = (code, result, more = {}) => open({
  steps: [['sendToolInput', { arguments: { code } }], ['sendToolResult', result]], ...more,
});

// Waits until two frames are drawn and the card has sent its height.
async function settled() {
  await chromium.evaluate('new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 60))))');
}

async function until(what, is) {
  for (let tries = 0; tries < 200; tries++) {
    if (await is().catch(() => false)) return;
    await new Promise((done) => setTimeout(done, 25));
  }
  assert.fail(`never: ${what}`);
}

// Returns the card as a PNG in base64.
async function captured(scale = 1) {
  const height = await chromium.evaluate('Math.ceil(document.querySelector("iframe").getBoundingClientRect().height)');
  const width = await chromium.evaluate('innerWidth');
  const { data } = await chromium.send('Page.captureScreenshot', {
    format: 'png', captureBeyondViewport: true, clip: { x: 0, y: 0, width, height: Math.max(height, 60), scale },
  });
  return data;
}

async function screenshot(name) {
  await writeFile(join(work, 'screenshots', `${name}.png`), Buffer.from(await captured(), 'base64'));
}

// Results with the server's texts.
const printed = (out, err, end) => ({
  content: [{ type: 'text', text: `${out && `STDOUT:\n${out}\n\n`}${err && `STDERR:\n${err}\n\n`}${end}` }],
});
const FAILED = 'Execution failed with return code 1', ENDED = 'Execution completed successfully.';
const traceback = (claim) => `Traceback (most recent call last):\n  File "<verification>", line 1, in <module>\nAssertionError: ${claim}`;

let card;

await report.check('the server lists the page, and returns it complete, small and without network access', async () => {
  const { resources } = await client.listResources();
  const pages = resources.filter(({ uri }) => uri.startsWith('ui:'));
  equal('pages', pages.map(({ uri, mimeType }) => [uri, mimeType]), [[URI, 'text/html;profile=mcp-app']]);
  const { contents } = await client.readResource({ uri: URI });
  equal('contents', contents.map(({ uri, mimeType }) => [uri, mimeType]), [[URI, 'text/html;profile=mcp-app']]);
  const csp = { connectDomains: [], resourceDomains: [], frameDomains: [], baseUriDomains: [] };
  equal('ui', contents[0]._meta.ui, { csp, prefersBorder: true });
  card = contents[0].text;
  assert.ok(Buffer.byteLength(card) < 18 * 1024, `${Buffer.byteLength(card)} bytes`);
  for (const tool of (await client.listTools()).tools) {
    equal(`_meta of ${tool.name}`, tool._meta, { ui: { resourceUri: URI, visibility: ['model'] }, 'ui/resourceUri': URI });
  }
});

await report.check('the card waits at first, and shows the script while the model writes it', async () => {
  await open({ steps: [] });
  equal('verdict', await said(), ['Verification', 'Waiting for the script.']);
  equal('role', await chromium.evaluate('document.querySelector("[role=status]").contains(document.querySelector("h1"))', { inFrame: true }), true);
  for (const length of [40, 90, PROOF.length]) {
    await chromium.evaluate(`bridge.sendToolInputPartial(${JSON.stringify({ arguments: { code: PROOF.slice(0, length) } })})`);
    await settled();
    equal('title', await text('h1'), 'Writing the script');
    const lines = await all('#script code');
    equal('lines', lines.join('\n').trimEnd(), PROOF.slice(0, length).trimEnd().replace(/^$/gm, ' '));
    if (length === 90) await screenshot('writing');
  }
  await chromium.evaluate(`bridge.sendToolInput(${JSON.stringify({ arguments: { code: PROOF } })})`);
  await settled();
  equal('title', await text('h1'), 'Running the script');
  await chromium.evaluate('bridge.sendToolCancelled({ reason: "The user stopped it." })');
  await settled();
  equal('verdict', await said(), ['Cancelled', 'The user stopped it.']);
});

await report.check('a script that succeeds: the verified claims, its output, its picture', async () => {
  const result = await resultOf('success');
  equal('blocks', result.content.map(({ type }) => type), ['text', 'image']);
  result._meta['qwed.ai/receipt'] = { sha256: 'a1b2c3d4'.repeat(8) };
  for (const [name, more] of [['light', {}], ['dark', { hostContext: { theme: 'dark' } }], ['host', { hostContext: DARK_HOST }], ['phone', { width: 360 }]]) {
    await showResult(SCRIPTS.success, result, more);
    await screenshot(`success-${name}`);
    equal('verdict', await said(), ['Verified: 1 check held', '']);
    equal('output', await text('#out pre'), 'after 20 terms: 0.999999046');
    equal('pictures', await all('img', 'alt'), ['Picture 1 of 1, drawn by the script']);
    equal('width of the picture', await all('img', 'naturalWidth'), [640]);
    equal('hidden', [await isShown('findings'), await isShown('err'), await isShown('notes')], [false, false, false]);
    equal('names', await all('dt'), ['Exit code', 'Time', 'Sandbox']);
    equal('marked', (await all('.marked')).length, 0);
    const [code, time, tier] = await all('dd');
    equal('exit code', code, '0');
    assert.match(`${time} ${tier}`, /^[\d.]+ m?s (T\d|off)$/);
    assert.match(await text('footer'), /^Receipt a1b2[a-d0-9]+\nVerification [0-9a-f]{64}$/);
    const overflows = await chromium.evaluate('document.documentElement.scrollWidth > innerWidth', { inFrame: true });
    equal('overflows', overflows, false);
    const heights = await chromium.evaluate('[heights.at(-1), Math.ceil(document.querySelector("iframe").getBoundingClientRect().height)]');
    equal('height', heights[0], heights[1]);
  }
});

await report.check('a false claim: refuted, with the counterexample first', async () => {
  const result = await resultOf('refuted');
  equal('isError', result.isError ?? false, false);
  await showResult(SCRIPTS.refuted, result);
  await screenshot('refuted');
  equal('verdict', await said(), ['Refuted', 'n = 40: 1681 is not prime']);
  equal('facts', (await all('dd'))[0], '1');
  assert.match(await text('#err pre'), /AssertionError: n = 40/);
  equal('marked', await all('.marked', 'firstChild.textContent'), ['    assert is_prime(value), f"n = {n}: {value} is not prime"']);
  for (const [code, title, lead] of [
    ['assert 1 > 2', 'Refuted', 'A check of the script does not hold.'],
    ['assert 1 > 2, "first\\n\\nValueError: second"', 'Refuted', 'first\n\nValueError: second'],
    ['try:\n    assert False, "x"\nexcept AssertionError as e:\n    raise ValueError("y") from e', 'Refuted', 'y'],
    ['total = 2\nif total != 3:\n    raise SystemExit("no")', 'Refuted', 'no'],
    ['print("AssertionError: z")\nraise SystemExit(2)', 'The script failed', ''],
    ['import sys\nsys.exit("why")', 'The script failed', 'why'],
  ]) {
    await showResult(code, await call(code));
    equal(`verdict of ${code}`, await said(), [title, lead]);
  }
});

await report.check('a refusal: the findings with alternatives, and their lines marked', async () => {
  const result = await resultOf('refused');
  const { findings } = result._meta['qwed.ai/decision'];
  equal('findings', findings.map(({ rule, line, column }) => [typeof rule, line, column]), [['string', 5, 1], ['string', 6, 8]]);
  for (const [name, more] of [['light', {}], ['dark', { hostContext: { theme: 'dark' } }], ['phone', { width: 360 }]]) {
    await showResult(SCRIPTS.refused, result, more);
    await screenshot(`refused-${name}`);
    equal('title', await text('h1'), 'Refused, nothing ran');
    equal('facts', [await all('dt'), await all('dd')], [['Code'], ['QWED-MCP-RISK-005']]);
    equal('places', await all('#findings b'), ['Line 5', 'Line 6']);
    equal('rules', await all('#findings small'), findings.map(({ rule }) => rule));
    equal('instead', (await all('#findings .instead')).length, 2);
    const marked = await chromium.evaluate(
      '[...document.querySelectorAll("#script code")].flatMap((code, index) => code.matches(".marked") ? [index + 1] : [])', { inFrame: true });
    equal('marked', marked, [5, 6]);
    // Marked for screen readers too, and not by colour alone.
    equal('said', (await all('#script .said', 'textContent')).length, 2);
  }
  // A finding far down in a long script, with any line ends, is scrolled into view, and the page has no second scroll
  // bar.
  const long = `${'x = 1\r\n'.repeat(300)}eval("1")\r\n${'y = 2\r\n'.repeat(300)}`;
  await showResult(long, await call(long));
  await screenshot('refused-long');
  equal('marked', await all('#script .marked', 'firstChild.textContent'), ['eval("1")']);
  equal('lines', (await all('#script code')).length, 601);
  const seen = await chromium.evaluate(`(() => {
    const [box, line] = [document.querySelector('#script pre'), document.querySelector('.marked')].map((e) => e.getBoundingClientRect());
    const root = document.documentElement;
    return [line.top >= box.top && line.bottom <= box.bottom, root.scrollHeight <= innerHeight, root.scrollWidth <= innerWidth];
  })()`, { inFrame: true });
  equal('in sight', seen, [true, true, true]);
  // Line numbers do not wrap.
  equal('high lines', (await all('#script code', 'offsetHeight')).filter((height) => height > 25), []);
});

await report.check('the next result in the same page shows nothing of the one before', async () => {
  await showResult(SCRIPTS.refused, await resultOf('refused'));
  equal('findings', await isShown('findings'), true);
  await chromium.evaluate(`bridge.sendToolInput(${JSON.stringify({ arguments: { code: SCRIPTS.success } })})`);
  await settled();
  equal('shown while it runs', [await isShown('findings'), (await all('dt')).length, await text('footer')], [false, 0, '']);
  await chromium.evaluate(`bridge.sendToolResult(${JSON.stringify(await resultOf('success'))})`);
  await settled();
  equal('shown', [await isShown('findings'), await isShown('out')], [false, true]);
  await chromium.evaluate(`bridge.sendToolInput(${JSON.stringify({ arguments: { code: SCRIPTS.refused } })})`);
  await settled();
  equal('output and pictures', [await isShown('out'), (await all('img')).length], [false, 0]);
});

await report.check('a timeout, with the output until then', async () => {
  const result = await resultOf('timeout');
  await showResult(SCRIPTS.timeout, result);
  await screenshot('timeout');
  equal('verdict', await said(), ['Out of time', 'Execution timed out after 3.0 seconds.']);
  equal('output', await text('#out pre'), 'looking for a counterexample to Collatz');
});

await report.check('1 MiB of output: its start and its end, in a box that scrolls with the keyboard', async () => {
  const result = await resultOf('flood');
  assert.ok(result.content[0].text.length > 1024 * 1024);
  await showResult(SCRIPTS.flood, result);
  await screenshot('flood');
  equal('title', await text('h1'), 'Too much output');
  const shown = await chromium.evaluate('document.querySelector("#out pre").textContent', { inFrame: true });
  assert.ok(shown.length < 25_000, `${shown.length}`);
  assert.match(shown, /^ *0 +0 \.+\n/);
  assert.match(shown, /characters left out here/);
  assert.match(shown, /PROCESS TERMINATED\.\]$/);
  equal('tabindex', await all('#out pre', 'tabIndex'), [0]);
  const press = async (key, windowsVirtualKeyCode) => {
    for (const type of ['rawKeyDown', 'keyUp']) await chromium.send('Input.dispatchKeyEvent', { type, key, code: key, windowsVirtualKeyCode });
    await settled();
  };
  await press('Tab', 9);
  equal('in focus', await chromium.evaluate('document.activeElement.parentElement.id', { inFrame: true }), 'out');
  await press('PageDown', 34);
  await until('the box has scrolled', () => chromium.evaluate('document.activeElement.scrollTop > 0', { inFrame: true }));
  const { nodes } = await chromium.send('Accessibility.getFullAXTree', { frameId: await frameId() });
  const named = nodes.filter(({ role }) => ['main', 'region', 'status', 'heading'].includes(role?.value)).map(({ role, name }) => `${role.value} ${name?.value}`);
  for (const landmark of ['heading Too much output', 'heading Output', 'region Output', 'heading Script']) assert.ok(named.includes(landmark), `${landmark} in ${named}`);
});

await report.check('a box that scrolls only on a narrow page scrolls with the keyboard too', async () => {
  await showResult('pass', printed(`${'word '.repeat(14)}\n`.repeat(14), '', ENDED));
  equal('wide', await all('#out pre', 'tabIndex'), [-1]);
  await chromium.send('Emulation.setDeviceMetricsOverride', { width: 320, height: 900, deviceScaleFactor: 1, mobile: false });
  await settled();
  equal('narrow', [await all('#out pre', 'tabIndex'), await all('#out pre', 'role'), await all('#out pre', 'ariaLabel')], [[0], ['region'], ['Output']]);
});

await report.check('the heading is the outcome, and lines that verify nothing are marked', async () => {
  for (const [name, code, title, lead, marked] of [
    ['verified', 'total = sum([1, 2])\nassert total == 3\nassert total < 4', 'Verified: 2 checks held', '', []],
    ['nothing', 'print(7)', 'Nothing was checked', 'The script ran to its end without a check.', []],
    ['vacuous', 'x = 1\nassert (x == 2, "no")', 'This check cannot fail', 'So nothing was verified.', ['assert (x == 2, "no") (cannot fail)']],
    ['caught', 'try:\n    assert sum([1]) == 2\nexcept AssertionError:\n    print("no")', 'A failed check was ignored',
      'The script caught the failure and ended successfully.', ['    assert sum([1]) == 2 (failed here)']],
    ['differs', 'import random\nassert random.random() < 2', 'Nothing failed', 'But the result can differ between runs.', []],
    ['exit', 'x = 3\nif x != 2:\n    raise SystemExit(1)', 'Refuted', 'A check of the script does not hold.', ['if x != 2: (failed here)']],
  ]) {
    await showResult(code, await call(code));
    await screenshot(`outcome-${name}`);
    equal(name, [await said(), await all('.marked', 'textContent')], [[title, lead], marked]);
  }
});

await report.check('a host may put its own policy and script before the page', async () => {
  const before = `<head><meta http-equiv="Content-Security-Policy" content="${POLICY}"><script>window.wasBefore = true</script></head>`;
  const html = card.replace(/<html[^>]*>/, (tag) => `${tag}\n${before}`);
  await open({ html, steps: [['sendToolInput', { arguments: { code: 'pass' } }], ['sendToolResult', printed('x', '', ENDED)]] });
  equal('shown', [await text('h1'), await chromium.evaluate('wasBefore', { inFrame: true })], ['Nothing failed', true]);
});

await report.check('a job in the background, and its end', async () => {
  const placed = await call(SCRIPTS.refuted, { background: true });
  const { job_id: job } = placed._meta['qwed.ai/job'];
  await showResult(SCRIPTS.refuted, placed);
  equal('verdict', await said(), ['Waiting in the background', `Job ${job}`]);
  await screenshot('job');
  let status;
  await until('the job has ended', async () => {
    status = await client.callTool({ name: 'verification_status', arguments: { job_id: job } });
    return status._meta['qwed.ai/job'].status === 'failed';
  });
  await open({ steps: [['sendToolInput', { arguments: { job_id: job } }], ['sendToolResult', status]] });
  equal('verdict', await said(), ['Refuted', 'n = 40: 1681 is not prime']);
  equal('script', await isShown('script'), false);
});

await report.check('without _meta, which some hosts omit, the card shows the same', async () => {
  for (const [script, title, sections] of [
    ['success', 'Nothing failed', ['pictures', 'out', 'script']], ['refuted', 'Refuted', ['err', 'notes', 'script']],
    ['refused', 'Refused, nothing ran', ['script']], ['timeout', 'Out of time', ['out', 'script']],
    ['flood', 'Too much output', ['out', 'script']],
  ]) {
    const { content, isError } = await resultOf(script);
    await showResult(SCRIPTS[script], { content, isError });
    await screenshot(`plain-${script}`);
    equal('title', await text('h1'), title);
    const shown = [];
    for (const id of ['pictures', 'out', 'err', 'notes', 'script']) if (await isShown(id)) shown.push(id);
    equal(`sections of ${script}`, shown, sections);
    equal('facts', await all('dt'), script === 'refused' ? ['Code'] : []);
    if (script === 'refused') {
      equal('marked', (await all('#script .marked')).length, 2);
      assert.match(await text('header p'), /^Dangerous function call: os\.system\(\) \(line 5\), .*formulas$/);
    }
  }
  // Other results that a host may pass on.
  for (const result of [{}, { content: [] }, { content: [{ type: 'text', text: '' }] }, { content: [{ type: 'resource', resource: { uri: 'x:y', text: '' } }] },
    { content: [{ type: 'text', text: 'x' }], isError: true, _meta: { 'qwed.ai/decision': 7, 'qwed.ai/execution': [], 'qwed.ai/job': null } }]) {
    await open({ steps: [['sendToolInput', { arguments: {} }], ['sendToolResult', { content: [], ...result }]] });
    assert.ok((await text('h1')).length > 0);
  }
});

// If a page makes elements of the output, this script sends a message to the host.
const SHOUT = "parent.postMessage('attack','*')";
const ATTACKS = {
  script: `<script>${SHOUT}</script>`,
  img: `<img src="data:," onerror="${SHOUT}">`,
  svg: `<svg xmlns="http://www.w3.org/2000/svg" onload="${SHOUT}"><animate onbegin="${SHOUT}" attributeName="x" dur="1s"/><script>${SHOUT}</script></svg>`,
  iframe: `<iframe srcdoc="<script>parent.${SHOUT}</script>"></iframe>`,
  details: `<details open ontoggle="${SHOUT}"></details>`,
};
const heard = async () => {
  await new Promise((done) => setTimeout(done, 150));
  return chromium.evaluate('window.heard.filter((said) => said === "attack").length');
};
// `strict` gives the page a policy that allows only its script, as the server's page has. `lax` allows every script.
const SCRIPT_POLICY = /(?<=script-src )'sha256-[\w+/=]+'/;
const strict = (page) => {
  const [, script] = /<script>([^]*)<\/script>/.exec(page);
  return page.replace(SCRIPT_POLICY, `'sha256-${createHash('sha256').update(script).digest('base64')}'`);
};
const lax = (page) => page.replace(SCRIPT_POLICY, "'unsafe-inline'");
// The same page, except that it treats texts as HTML.
const careless = () => {
  const broken = card.replace('child.textContent = visible(text)', 'child.append(document.createRange().createContextualFragment(text))')
    .replace('box.textContent = visible(', 'box.append(document.createRange().createContextualFragment(text)); box.title = visible(');
  assert.notEqual(broken, card);
  return broken;
};

for (const [name, attack] of Object.entries(ATTACKS)) {
  await report.check(`output with ${name} is text, and the attack works in a careless page`, async () => {
    const code = `# ${attack}\nprint(${JSON.stringify(attack)})\nimport sys\nprint(${JSON.stringify(attack)}, file=sys.stderr)\nassert False, ${JSON.stringify(attack)}\n`;
    const result = await call(code);
    // The attack in every member that the card shows.
    const finding = { rule: attack, line: 1, column: 1, message: attack, instead: attack };
    const all = {
      ...result,
      content: [...result.content, { type: 'text', text: attack }],
      _meta: { ...result._meta, 'qwed.ai/decision': { ...result._meta['qwed.ai/decision'], findings: [finding], notes: [attack] }, 'qwed.ai/receipt': { sha256: attack } },
    };
    for (const shown of [result, all]) {
      await showResult(code, shown);
      equal('heard', await heard(), 0);
      assert.equal(await text('#out pre'), attack);
    }
    equal('elements', await chromium.evaluate('document.querySelectorAll("main script, main img, main iframe, main details, section svg").length', { inFrame: true }), 0);
    if (name === 'script') await screenshot('attack');
    // The policy protects the page even if its script is careless. Without the policy, the attack works.
    for (const [html, count] of [[strict(careless()), 0], [lax(careless()), 1]]) {
      await open({ html, steps: [['sendToolInput', { arguments: { code } }], ['sendToolResult', result]] }).catch(() => {});
      assert.match(await text('h1'), /^Refuted$/);
      equal('heard by a careless page', Math.min(1, await heard()), count);
    }
  });
}

const picture = (mimeType, data) => ({ content: [{ type: 'image', mimeType, data }] });

await report.check('a picture with markup runs nothing, and its type is checked', async () => {
  const data = Buffer.from(ATTACKS.svg).toString('base64');
  for (const [mimeType, bytes] of [
    ['image/svg+xml', data], ['text/html', data], ['image/png"onerror="x', data], ['', data], ['image/png', `,${ATTACKS.svg}`],
    ['image/png', ''], ['javascript:image/png', data], ['image/png', `javascript:${SHOUT}`], ['image/png;x', data],
  ]) {
    await showResult('pass', picture(mimeType, bytes));
    equal(`pictures of ${mimeType} ${bytes.slice(0, 20)}`, [(await all('img')).length, await heard()], [0, 0]);
  }
  // Data that is not a picture is replaced by a note.
  for (const bytes of [data, 'iVBORw0KGgo=', '====', 'a']) {
    await showResult('pass', picture('image/png', bytes));
    await until('the image has failed', async () => (await all('img')).length === 0);
    equal('instead', [await all('#pictures li'), await heard()], [['A picture that cannot be shown.'], 0]);
  }
  // The control: the same drawing as a part of the page.
  const inlined = lax(card).replace('picture.src =', `box.append(document.createRange().createContextualFragment(atob(data)));\n    picture.src =`);
  assert.notEqual(inlined, lax(card));
  await open({ html: inlined, steps: [['sendToolInput', { arguments: {} }], ['sendToolResult', picture('image/png', data)]] });
  assert.ok(await heard() > 0, 'the attack does not work at all');
});

await report.check('pictures that the host does not pass on are noted', async () => {
  const result = await resultOf('success');
  result.content = result.content.filter(({ type }) => type !== 'image');
  await showResult(SCRIPTS.success, result);
  equal('notes', await all('#notes li'), ['1 of 1 pictures were not passed on to this page.']);
});

await report.check('control and bidirectional characters are shown as code points', async () => {
  const code = String.raw`print("a\u202Eb\u2066c\x1b[31mred\x1b[0m\x07\x1b]0;title\x07\u200bz")`;
  const result = await call(code);
  const raw = result.content[0].text;
  // The control: the characters are in the result.
  for (const character of ['\u202e', '\u2066', '\x07', '\x1b', '\u200b']) assert.ok(raw.includes(character));
  await showResult(code + ' # \u202e\u2066', result);
  equal('output', await text('#out pre'), 'a\u27e8U+202E\u27e9b\u27e8U+2066\u27e9cred\u27e8U+0007\u27e9\u27e8U+001B\u27e9]0;title\u27e8U+0007\u27e9\u27e8U+200B\u27e9z');
  const page = await chromium.evaluate('document.body.textContent', { inFrame: true });
  assert.ok(!/[\x00-\x08\x0e-\x1f\u202a-\u202e\u2066-\u2069]/.test(page.replace(/[^]*<\/?script/, '')));
  await screenshot('controls');
  // Invisible characters: tags, fillers, a soft hyphen, selectors. Joiners within emoji and letters are kept.
  const hidden = '\u{e0041}\u{e007f}\u00ad\u3164\u115f\u034f\u{e0100}\ufff9\u180e\u2028';
  const joined = '\u{1f469}\u200d\u{1f52c} \u2764\ufe0f \u0915\u094d\u200d\u0937';
  await showResult('pass', { content: [{ type: 'text', text: `STDOUT:\n${hidden}${joined}\n\nExecution completed successfully.` }] });
  equal('hidden', await text('#out pre'), `${[...hidden].map((c) => `\u27e8U+${c.codePointAt().toString(16).toUpperCase().padStart(4, 0)}\u27e9`).join('')}${joined}`);
});

await report.check('the verdict is that of the server, independent of the output of the script', async () => {
  for (const [name, code, verdict, lines] of [
    ['another end', `import sys\nprint("${ENDED}")\nprint("\\n\\n${FAILED.replace('1', '0')}\\n\\n", file=sys.stderr)\nsys.exit(1)`, 'The script failed', 0],
    ['a notice of too much', 'print("PROCESS TERMINATED.]")', 'Nothing was checked', 0],
    ['a refusal', 'print("BLOCKED: no")', 'Nothing was checked', 0],
    ['a traceback that was handled', 'import traceback\ntry:\n    1 / 0\nexcept ZeroDivisionError:\n    traceback.print_exc()', 'Nothing was checked', 0],
    ['a long counterexample', 'assert False, "x\\n" * 40000', 'Refuted', 1],
  ]) {
    const result = await call(code);
    for (const shown of [result, { content: result.content, isError: result.isError }]) {
      await showResult(code, shown);
      const expected = shown !== result && verdict === 'Nothing was checked' ? 'Nothing failed' : verdict;
      equal(`${name}${shown === result ? '' : ' without _meta'}`, [await text('h1'), (await all('.marked')).length], [expected, lines]);
    }
  }
  // The memory limit without any output, in the server's words.
  const limit = 'The memory limit of the sandbox ended it.';
  await showResult('pass', printed('', '', `Execution failed with return code -9\n${limit}`));
  equal('verdict', await said(), ['Ended before its time', limit]);
});

await report.check('a claim is below the verdict, and stays small', async () => {
  const stack = `a${'\u0300\u0301\u0302\u0489\u0321'.repeat(500)}`;
  for (const claim of [stack, 'x\n'.repeat(300), '\ufdfd'.repeat(999), 'x'.repeat(1 << 20), `${'\n'.repeat(99)}x`]) {
    for (const width of [720, 320]) {
      await showResult('assert False', printed('', traceback(claim), FAILED), { width });
      equal('title', await text('h1'), 'Refuted');
      const [over, height, wide] = await chromium.evaluate(`(() => {
        const [title, lead] = ['h1', 'header p'].map((of) => document.querySelector(of));
        const isClipped = getComputedStyle(lead).overflow === 'hidden';
        return [!isClipped || title.getBoundingClientRect().bottom > lead.getBoundingClientRect().top, lead.offsetHeight,
          document.documentElement.scrollWidth > innerWidth];
      })()`, { inFrame: true });
      equal(`over, wide at ${width}`, [over, wide], [false, false]);
      assert.ok(height <= 270, `${height} px`);
    }
  }
});

await report.check('values of wrong types, from a server or a host, break nothing', async () => {
  const strange = [null, true, 7, -1e99, '', [], [[]], {}, { length: 3 }, { toString: 1, valueOf: 1 }, JSON.parse('{"__proto__":{"polluted":1}}')];
  const MEMBERS = {
    decision: ['status', 'message', 'findings', 'notes', 'error_code', 'verification_id'], job: ['status', 'job_id'],
    execution: ['exit_code', 'duration_ms', 'timed_out', 'stdout_truncated', 'stderr_truncated', 'sandbox', 'pictures'], receipt: ['sha256'],
  };
  const content = [{ type: 'text', text: `STDOUT:\nx\n\n${ENDED}` }];
  const metas = strange.flatMap((value) => [
    ...Object.entries(MEMBERS).flatMap(([key, members]) => [{ [key]: value }, ...members.map((member) => ({ [key]: { [member]: value } }))]),
    { decision: { status: 'BLOCKED', findings: [value, { line: value, lines: value, message: value, instead: value, rule: value }] } },
  ]).map((meta) => Object.fromEntries(Object.entries(meta).map(([key, value]) => [`qwed.ai/${key}`, value])));
  const results = [
    ...metas.map((_meta) => ({ content, _meta })),
    ...strange.flatMap((value) => [
      { content: value }, { content: [value] }, { content: [{ type: 'text', text: value }] }, { content, _meta: value },
      { content: [{ type: 'image', mimeType: 'image/png', data: value }] }, { content: [{ type: value, mimeType: value }] },
    ]),
  ];
  const messages = [
    ...results.map((result) => ['ui/notifications/tool-result', result]),
    ...strange.flatMap((value) => [
      ...['tool-input', 'tool-input-partial', 'tool-result', 'tool-cancelled', 'host-context-changed'].map((name) => [`ui/notifications/${name}`, value]),
      ...['tool-input', 'tool-input-partial'].flatMap((name) => [
        [`ui/notifications/${name}`, { arguments: value }], [`ui/notifications/${name}`, { arguments: { code: value, background: value } }],
      ]),
      ['ui/notifications/tool-cancelled', { reason: value }], ['ui/notifications/host-context-changed', { theme: value, styles: value }],
      ['ui/notifications/host-context-changed', { styles: { variables: value } }],
      ['ui/notifications/host-context-changed', { styles: { variables: { '--font-sans': value } } }],
      [value, {}], ['toString', {}], ['__proto__', {}], ['constructor', {}],
    ]),
  ];
  // Sent without the bridge, which validates its messages.
  await open({ steps: [['sendToolInput', { arguments: { code: 'pass' } }]] });
  const titles = await chromium.evaluate(`(async () => {
    const titles = [];
    for (const [method, params] of ${JSON.stringify(messages)}) {
      document.querySelector('h1').textContent = '';
      dispatchEvent(new MessageEvent('message', { source: parent, data: { jsonrpc: '2.0', method, params } }));
      await new Promise((done) => requestAnimationFrame(done));
      if (method?.endsWith?.('tool-result')) titles.push(document.querySelector('h1').textContent);
    }
    for (const data of ${JSON.stringify(strange)}) dispatchEvent(new MessageEvent('message', { source: parent, data }));
    return titles;
  })()`, { inFrame: true });
  equal('exceptions', chromium.errors(), []);
  equal('results without a verdict', titles.filter((title) => title === '').length, 0);
  equal('polluted', await chromium.evaluate('({}).polluted === undefined', { inFrame: true }), true);
  // The card still works.
  await chromium.evaluate(`bridge.sendToolResult(${JSON.stringify({ content })})`);
  await settled();
  equal('title', await text('h1'), 'Nothing failed');
}, 60);

await report.check('style variables of the host are only variables, and fetch nothing', async () => {
  const variables = {
    display: 'none', 'background-image': 'url(https://host.example/a)', '--color-background-primary': 'url(https://host.example/b)',
    '--color-text-primary': 'red; display: none', '--font-sans': 'x} body { display: none', '--border-radius-md': 'calc(', '': 'x',
  };
  await showResult(SCRIPTS.refuted, await resultOf('refuted'), { hostContext: { theme: 'light', styles: { variables } } });
  equal('is shown', await chromium.evaluate('document.querySelector("h1").checkVisibility()', { inFrame: true }), true);
  equal('asked for', await chromium.evaluate('performance.getEntriesByType("resource").length', { inFrame: true }), 0);
});

await report.check('the number of lines in a refusal is bounded', async () => {
  const lines = '(lines 99999999999999999999-999999999999999999999, 1-999999, 3)';
  await showResult('x = 1\n'.repeat(9), { content: [{ type: 'text', text: `BLOCKED: call of f${lines}` }], isError: true });
  equal('title', await text('h1'), 'Refused, nothing ran');
  equal('marked', (await all('.marked')).length, 9);
});

await report.check('1 MiB of any content, and a script of thousands of pieces, are shown quickly', async () => {
  const whole = 1 << 20;
  for (const [name, result] of Object.entries({
    lines: printed('abcdefgh 1234567\n'.repeat(whole / 17), '', ENDED), 'one line': printed('a'.repeat(whole), '', ENDED),
    'line ends': printed('\n'.repeat(whole), '', ENDED), escapes: printed('\x1b['.repeat(whole / 2), '', ENDED),
    controls: printed('', '\x01'.repeat(whole), FAILED), claim: printed('', traceback('ab\n'.repeat(whole / 3)), FAILED),
    frames: printed('', '  File "<verification>", line 1\n'.repeat(whole / 32), FAILED), stacks: printed('a\u0301'.repeat(whole / 2), '', ENDED),
  })) {
    await within(1500, name, [['tool-result', result]]);
    assert.ok(await chromium.evaluate('document.querySelectorAll("*").length', { inFrame: true }) < 100);
  }
  for (const code of ['x'.repeat(whole), 'x\n'.repeat(whole / 2), `${'x'.repeat(99)}\n`.repeat(whole / 100)]) {
    await within(1500, 'script', [['tool-input', { arguments: { code } }]]);
    assert.ok(await chromium.evaluate('document.querySelectorAll("*").length', { inFrame: true }) < 1600);
  }
  const code = 'value = value + 1 # nothing\n'.repeat(1500);
  const pieces = Array.from({ length: 3000 }, (_, index) => ['tool-input-partial', { arguments: { code: code.slice(0, 14 * index) } }]);
  await within(3000, 'pieces', pieces);
}, 60);

// Sends messages to the card. One of ten tries must keep the page busy for less than this, because other work on the
// machine may slow some tries down.
async function within(millisecondsMax, name, messages) {
  let quickest = Infinity;
  for (let tries = 0; tries < 10 && quickest >= millisecondsMax; tries += 1) {
    quickest = Math.min(quickest, await busy(messages));
  }
  if (process.env.TIMES) console.error(`${name}: ${Math.round(quickest)} ms`);
  assert.ok(quickest < millisecondsMax, `${name}: ${quickest} ms`);
}

// Returns the milliseconds that the page needs for the messages.
async function busy(messages) {
  await open({ steps: [] });
  return chromium.evaluate(`(async () => {
    const messages = ${JSON.stringify(messages)};
    const begun = performance.now();
    for (const [method, params] of messages)
      dispatchEvent(new MessageEvent('message', { source: parent, data: { jsonrpc: '2.0', method: 'ui/notifications/' + method, params } }));
    await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
    return performance.now() - begun;
  })()`, { inFrame: true });
}

await report.check('only messages of the host are processed', async () => {
  const fake = { jsonrpc: '2.0', method: 'ui/notifications/tool-cancelled', params: { reason: 'not the host' } };
  await open({ steps: [] });
  await chromium.evaluate(`(() => {
    const other = document.createElement('iframe');
    other.srcdoc = ${JSON.stringify(`<script>parent.frames[0].postMessage(${JSON.stringify(fake)}, '*')</script>`)};
    document.body.append(other);
  })()`);
  await new Promise((done) => setTimeout(done, 200));
  equal('title', await text('h1'), 'Verification');
  // The control: the same message from the host.
  await chromium.evaluate(`frames[0].postMessage(${JSON.stringify(fake)}, '*')`);
  await settled();
  equal('title', await text('h1'), 'Cancelled');
});

await report.check('the card follows the theme of its host, answers a teardown, and requests nothing', async () => {
  const result = await resultOf('success');
  await showResult(SCRIPTS.success, result);
  const ground = () => chromium.evaluate('getComputedStyle(document.body).backgroundColor', { inFrame: true });
  const before = await ground();
  await chromium.evaluate(`bridge.setHostContext(${JSON.stringify(DARK_HOST)})`);
  await settled();
  equal('grounds', [before, await ground()], ['rgb(255, 255, 255)', 'rgb(16, 21, 28)']);
  equal('teardown', await chromium.evaluate('bridge.teardownResource({})'), {});
  const asked = await chromium.evaluate('performance.getEntriesByType("resource").map((entry) => entry.name)', { inFrame: true });
  equal('asked for', asked.filter((name) => !name.startsWith('data:')), []);
});

await report.check('text has the contrast of WCAG AA, light and dark', async () => {
  for (const theme of ['light', 'dark']) {
    for (const name of ['success', 'refuted', 'refused']) {
      await showResult(SCRIPTS[name], await resultOf(name), { hostContext: { theme } });
      const low = await chromium.evaluate(`(${lowContrast})()`, { inFrame: true });
      equal(`low contrast, ${theme}`, low, []);
    }
  }
});

// The picture of the README, from a result and an output of the real server.
const CLAIM = 'value = 10_000 * (1 + 0.075 / 4) ** 20\nassert round(value, 2) == 14490.97, f"it is {value:.2f}"\n';
const PICTURE_THEMES = {
  light: { page: '#ffffff', chat: '#f6f8fa', text: '#1f2328', dim: '#59636e', user: '#dbeafe', terminal: '#f6f8fa', border: '#d1d9e0', error: '#c4281c' },
  dark: { page: '#0d1117', chat: '#151b23', text: '#f0f6fc', dim: '#9198a1', user: '#1d3a5f', terminal: '#010409', border: '#3d444d', error: '#ff7b72' },
};

const escaped = (text) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;');

const picturePage = (theme, card, outputs) => {
  const of = PICTURE_THEMES[theme];
  return `<!doctype html><meta charset="utf-8"><style>
    body { margin: 0; padding: 16px; display: flex; gap: 16px; background: ${of.page}; color: ${of.text}; font: 15px/1.5 sans-serif }
    section { border: 1px solid ${of.border}; border-radius: 10px; overflow: hidden }
    .chat { flex: 1; background: ${of.chat}; padding: 16px }
    .chat p { margin: 0 0 12px } .chat .user { background: ${of.user}; border-radius: 10px; padding: 8px 12px; margin-left: 60px }
    .chat img { display: block; width: 100%; border: 1px solid ${of.border}; border-radius: 8px; margin-bottom: 12px }
    .terminal { flex: 1; background: ${of.terminal} }
    .terminal header { padding: 8px 14px; border-bottom: 1px solid ${of.border}; color: ${of.dim}; font-size: 13px }
    pre { margin: 0; padding: 14px; font: 13px/1.6 monospace; white-space: pre-wrap; overflow-wrap: anywhere } i { font-style: normal; color: ${of.error} }
    pre b { font-weight: normal; color: ${of.dim} }
  </style><body>
  <section class="chat"><p class="user">What are 10,000 at 7.5 % a year, compounded quarterly, after five years?</p>
    <p>I believe it is 14,490.97. Let me check.</p><img src="data:image/png;base64,${card}" alt="">
    <p>I was wrong: it is <strong>14,499.48</strong>.</p></section>
  <section class="terminal"><header>Terminal</header><pre>${outputs.map(({ name, code, stderr }) => `<b>$</b> cat ${name}
${escaped(code)}<b>$</b> qwed-mcp run ${name}
<i>${escaped(stderr)}</i>`).join('\n')}<b>$</b> </pre></section></body>`;
};

await report.check('the picture of the README shows a refuted claim, light and dark', async () => {
  const result = await call(CLAIM);
  const env = { ...process.env, QWED_MCP_PYTHON: process.env.PLOTTING_PYTHON };
  const run = (name, code) => ({ name, code, stderr: spawnSync(server, ['run', '-'], { input: code, encoding: 'utf8', env }).stderr });
  const outputs = [run('claim.py', CLAIM), run('shell.py', 'from os import popen as op\nop("id")\n')];
  assert.match(outputs[0].stderr, /AssertionError: it is 14499\.48\n$/);
  assert.match(outputs[1].stderr, /^error: BLOCKED: /);
  for (const theme of Object.keys(PICTURE_THEMES)) {
    await showResult(CLAIM, result, { width: 600, hostContext: { theme } });
    equal('verdict', await said(), ['Refuted', 'it is 14499.48']);
    const card = await captured(2);
    await writeFile(join(work, 'picture.html'), picturePage(theme, card, outputs));
    await chromium.send('Emulation.setDeviceMetricsOverride', { width: 1160, height: 400, deviceScaleFactor: 1, mobile: false });
    await chromium.send('Page.navigate', { url: `file://${join(work, 'picture.html')}` });
    await until('the picture is there', () => chromium.evaluate('document.readyState === "complete" && document.images[0]?.complete'));
    const height = await chromium.evaluate('Math.ceil(document.body.getBoundingClientRect().height)');
    const clip = { x: 0, y: 0, width: 1160, height, scale: 1.5 };
    const { data } = await chromium.send('Page.captureScreenshot', { format: 'png', captureBeyondViewport: true, clip });
    await writeFile(join(work, 'screenshots', `refuted-${theme}.png`), Buffer.from(data, 'base64'));
  }
});

// Runs in the page. Returns the texts whose contrast with their background is below 4.5.
function lowContrast() {
  const channels = (color) => (color.match(/[\d.]+/g) ?? []).map(Number);
  const luminance = ([r, g, b]) => [r, g, b].map((c) => c / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
    .reduce((sum, c, index) => sum + c * [0.2126, 0.7152, 0.0722][index], 0);
  const ground = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const color = channels(getComputedStyle(at).backgroundColor);
      if (color.length === 3 || color[3] > 0) return color;
    }
    return [255, 255, 255];
  };
  const low = [];
  for (const element of document.querySelectorAll('main *')) {
    const hasText = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!hasText || !element.checkVisibility()) continue;
    const [a, b] = [luminance(channels(getComputedStyle(element).color)), luminance(ground(element))];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < 4.5) low.push(`${element.localName} ${element.textContent.slice(0, 20)} ${contrast.toFixed(1)}`);
  }
  return low;
}

async function frameId() {
  const { frameTree } = await chromium.send('Page.getFrameTree');
  return frameTree.childFrames[0].frame.id;
}

await chromium.close();
await client.close();
await impatient.close();
process.exit(report.failed ? 1 : 0);

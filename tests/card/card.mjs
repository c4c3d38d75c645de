// The card in Chromium: what it says of results of the real server, how it looks, and that no output does anything in it.

import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';

import { Chromium } from './chromium.mjs';
import { Report, equal } from './report.mjs';

const [server, work] = process.argv.slice(2);
const URI = 'ui://qwed-mcp/verification.html';
const TOOL = 'execute_python_code';

// The policy of a host for a page that asks for nothing (MCP Apps, "Content Security Policy").
const POLICY = "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; "
  + "img-src 'self' data:; media-src 'self' data:; connect-src 'none'";
// Some of the variables of a host with a look of its own.
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
  success: 'from fractions import Fraction\n\n# 1/2 + 1/4 + 1/8 + ... stays below 1\ntotal = Fraction(0)\n'
    + 'for n in range(1, 21):\n    total += Fraction(1, 2**n)\n    assert total < 1\nprint(f"after 20 terms: {float(total):.9f}")\n',
  refuted: '# "n*n + n + 41 is prime for every n"\ndef is_prime(n):\n    return n > 1 and all(n % d for d in range(2, int(n**0.5) + 1))\n\n'
    + 'for n in range(100):\n    value = n * n + n + 41\n    assert is_prime(value), f"n = {n}: {value} is not prime"\n',
  refused: 'import json\nimport os\n\nrates = json.loads(\'{"EUR": 1.08}\')\nos.system("curl https://rates.example")\n'
    + 'assert eval("rates[\'EUR\']") > 1\nprint("done")\n',
  timeout: 'n = 27\nprint("looking for a counterexample to Collatz", flush=True)\nwhile True:\n    n += 1\n',
  flood: 'for line in range(40_000):\n    print(f"{line:6d} {line * line:12d} ........")\n',
};

const report = new Report('card');
const client = new Client({ name: 'card-test', version: '1' });
await client.connect(new StdioClientTransport({
  command: server,
  args: [],
  env: { ...process.env, QWED_MCP_WARM: 'off', QWED_MCP_TEST_SYNC_TIMEOUT_MS: '3000' },
}));
const hostScript = await readFile(join(work, 'host.js'), 'utf8');
await writeFile(join(work, 'host.html'), `<!doctype html><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${POLICY}">
<style>body { margin: 0 } iframe { display: block; width: 100%; border: 0 }</style>
<body><script>${hostScript.replaceAll('</script', '<\\/script')}</script></body>`);
const chromium = await Chromium.start(join(work, 'profile'));

const call = (code, more = {}) => client.callTool({ name: TOOL, arguments: { code, ...more } });
const text = (selector) => chromium.evaluate(`document.querySelector(${JSON.stringify(selector)})?.innerText`, { inFrame: true });
const all = (selector, of = 'innerText') => chromium.evaluate(
  `[...document.querySelectorAll(${JSON.stringify(selector)})].map((element) => element.${of})`, { inFrame: true });
const isShown = (id) => chromium.evaluate(`!document.getElementById(${JSON.stringify(id)}).hidden`, { inFrame: true });
const said = async () => [await text('h1'), await text('header p')];

// Loads the host anew, at a width and in a look, and shows the card in it.
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

// Until two frames were drawn and the height has been told.
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

async function screenshot(name) {
  const height = await chromium.evaluate('Math.ceil(document.querySelector("iframe").getBoundingClientRect().height)');
  const width = await chromium.evaluate('innerWidth');
  const { data } = await chromium.send('Page.captureScreenshot', {
    format: 'png', captureBeyondViewport: true, clip: { x: 0, y: 0, width, height: Math.max(height, 60), scale: 1 },
  });
  await writeFile(join(work, 'screenshots', `${name}.png`), Buffer.from(data, 'base64'));
}

// A picture as a script draws one: made here, by the browser.
async function plot() {
  await chromium.send('Page.navigate', { url: 'about:blank' });
  return chromium.evaluate(`(() => {
    const canvas = Object.assign(document.createElement('canvas'), { width: 640, height: 360 });
    const pen = canvas.getContext('2d');
    pen.fillStyle = '#fff'; pen.fillRect(0, 0, 640, 360);
    pen.strokeStyle = '#333'; pen.strokeRect(60, 20, 550, 290);
    pen.fillStyle = '#333'; pen.font = '13px sans-serif'; pen.fillText('terms', 315, 345); pen.fillText('sum of the series', 70, 40);
    pen.lineWidth = 2; pen.strokeStyle = '#1f77b4'; pen.beginPath();
    for (let n = 0; n <= 20; n++) pen.lineTo(60 + n * 27.5, 310 - 270 * (1 - 2 ** -n));
    pen.stroke();
    return canvas.toDataURL('image/png').split(',')[1];
  })()`);
}

let card;

await report.check('the server lists the page, and gives it in one piece, small and for no network', async () => {
  const { resources } = await client.listResources();
  equal('resources', resources.map(({ uri, mimeType }) => [uri, mimeType]), [[URI, 'text/html;profile=mcp-app']]);
  const { contents } = await client.readResource({ uri: URI });
  equal('contents', contents.map(({ uri, mimeType }) => [uri, mimeType]), [[URI, 'text/html;profile=mcp-app']]);
  equal('ui', contents[0]._meta.ui, { prefersBorder: true });
  card = contents[0].text;
  assert.ok(Buffer.byteLength(card) < 16 * 1024, `${Buffer.byteLength(card)} bytes`);
  for (const tool of (await client.listTools()).tools) {
    equal(`_meta of ${tool.name}`, tool._meta, { ui: { resourceUri: URI, visibility: ['model'] }, 'ui/resourceUri': URI });
  }
});

await report.check('before anything is known it says so, and while the model writes, the script grows', async () => {
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

await report.check('a script that ends: nothing failed, its output, its picture', async () => {
  const data = await plot();
  const result = await call(SCRIPTS.success);
  result.content = [...result.content.filter(({ type }) => type !== 'image'), { type: 'image', mimeType: 'image/png', data }];
  result._meta['qwed.ai/receipt'] = { sha256: 'a1b2c3d4'.repeat(8) };
  for (const [name, more] of [['light', {}], ['dark', { hostContext: { theme: 'dark' } }], ['host', { hostContext: DARK_HOST }], ['phone', { width: 360 }]]) {
    await showResult(SCRIPTS.success, result, more);
    await screenshot(`success-${name}`);
    equal('verdict', await said(), ['Nothing failed', 'The script ran to its end.']);
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

await report.check('a claim that does not hold: refuted, with the counterexample first', async () => {
  const result = await call(SCRIPTS.refuted);
  equal('isError', result.isError ?? false, false);
  await showResult(SCRIPTS.refuted, result);
  await screenshot('refuted');
  equal('verdict', await said(), ['Refuted', 'n = 40: 1681 is not prime']);
  equal('facts', (await all('dd'))[0], '1');
  assert.match(await text('#err pre'), /AssertionError: n = 40/);
  equal('marked', await all('.marked', 'firstChild.textContent'), ['    assert is_prime(value), f"n = {n}: {value} is not prime"']);
  for (const [code, title, lead] of [
    ['assert 1 > 2', 'Refuted', 'An assertion of the script does not hold.'],
    ['assert 1 > 2, "first\\n\\nValueError: second"', 'Refuted', 'first\n\nValueError: second'],
    ['try:\n    assert False, "x"\nexcept AssertionError as e:\n    raise ValueError("y") from e', 'The script failed', 'ValueError: y'],
    ['print("AssertionError: z")\nraise SystemExit(2)', 'The script failed', ''],
    ['import sys\nsys.exit("why")', 'The script failed', 'why'],
  ]) {
    await showResult(code, await call(code));
    equal(`verdict of ${code}`, await said(), [title, lead]);
  }
});

await report.check('a refusal: the findings with what to write instead, and their lines marked', async () => {
  const result = await call(SCRIPTS.refused);
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
    // Not by colour alone, and not for eyes alone.
    equal('said', (await all('#script .said', 'textContent')).length, 2);
  }
  // Far down in a long script, whatever its lines end with: in sight, and without a second bar to scroll.
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
  // The numbers of lines stand in one line.
  equal('high lines', (await all('#script code', 'offsetHeight')).filter((height) => height > 25), []);
});

await report.check('out of time, and what was printed until then', async () => {
  const result = await call(SCRIPTS.timeout);
  await showResult(SCRIPTS.timeout, result);
  await screenshot('timeout');
  equal('verdict', await said(), ['Out of time', 'Execution timed out after 3.0 seconds.']);
  equal('output', await text('#out pre'), 'looking for a counterexample to Collatz');
});

await report.check('1 MiB of output: its start and its end, in a box that the keys reach', async () => {
  const result = await call(SCRIPTS.flood);
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

await report.check('without _meta, which not every host passes on, it says the same', async () => {
  for (const [script, title, sections] of [
    ['success', 'Nothing failed', ['out', 'script']], ['refuted', 'Refuted', ['err', 'script']],
    ['refused', 'Refused, nothing ran', ['script']], ['timeout', 'Out of time', ['out', 'script']],
    ['flood', 'Too much output', ['out', 'script']],
  ]) {
    const { content, isError } = await call(SCRIPTS[script]);
    await showResult(SCRIPTS[script], { content, isError });
    await screenshot(`plain-${script}`);
    equal('title', await text('h1'), title);
    const shown = [];
    for (const id of ['out', 'err', 'notes', 'script']) if (await isShown(id)) shown.push(id);
    equal(`sections of ${script}`, shown, sections);
    equal('facts', await all('dt'), script === 'refused' ? ['Code'] : []);
    if (script === 'refused') {
      equal('marked', (await all('#script .marked')).length, 2);
      assert.match(await text('header p'), /^Dangerous function call: os\.system\(\) \(line 5\), .*formulas$/);
    }
  }
  // Whatever else a host hands over.
  for (const result of [{}, { content: [] }, { content: [{ type: 'text', text: '' }] }, { content: [{ type: 'resource', resource: { uri: 'x:y', text: '' } }] },
    { content: [{ type: 'text', text: 'x' }], isError: true, _meta: { 'qwed.ai/decision': 7, 'qwed.ai/execution': [], 'qwed.ai/job': null } }]) {
    await open({ steps: [['sendToolInput', { arguments: {} }], ['sendToolResult', { content: [], ...result }]] });
    assert.ok((await text('h1')).length > 0);
  }
});

// What output does where a page makes elements of it: it says so to the host.
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
// The same page, but what is text there is taken for HTML.
const careless = () => {
  const broken = card.replace('child.textContent = visible(text)', 'child.append(document.createRange().createContextualFragment(text))')
    .replace('box.textContent = visible(', 'box.append(document.createRange().createContextualFragment(text)); box.title = visible(');
  assert.notEqual(broken, card);
  return broken;
};

for (const [name, attack] of Object.entries(ATTACKS)) {
  await report.check(`output with ${name} is text, and works where it is not taken as such`, async () => {
    const code = `# ${attack}\nprint(${JSON.stringify(attack)})\nimport sys\nprint(${JSON.stringify(attack)}, file=sys.stderr)\nassert False, ${JSON.stringify(attack)}\n`;
    const result = await call(code);
    // In every member that is shown.
    const finding = { rule: attack, line: 1, column: 1, message: attack, instead: attack };
    const all = {
      ...result,
      content: [...result.content, { type: 'text', text: attack }],
      _meta: { ...result._meta, 'qwed.ai/decision': { ...result._meta['qwed.ai/decision'], findings: [finding], notes: [attack] }, 'qwed.ai/receipt': attack },
    };
    for (const shown of [result, all]) {
      await showResult(code, shown);
      equal('heard', await heard(), 0);
      assert.equal(await text('#out pre'), attack);
    }
    equal('elements', await chromium.evaluate('document.querySelectorAll("main script, main img, main iframe, main details, section svg").length', { inFrame: true }), 0);
    if (name === 'script') await screenshot('attack');
    // The control.
    await open({ html: careless(), steps: [['sendToolInput', { arguments: { code } }], ['sendToolResult', result]] }).catch(() => {});
    assert.ok(await heard() > 0, 'the attack does not work at all');
  });
}

await report.check('a picture that is a page runs nothing, and its type is looked at', async () => {
  const data = Buffer.from(ATTACKS.svg).toString('base64');
  const picture = (mimeType, data) => ({ content: [{ type: 'image', mimeType, data }] });
  await showResult('pass', picture('image/svg+xml', data));
  equal('pictures', [(await all('img')).length, await heard()], [1, 0]);
  for (const [mimeType, bytes] of [['text/html', data], ['image/png"onerror="x', data], ['image/svg+xml', `,${ATTACKS.svg}`], [undefined, data]]) {
    await showResult('pass', picture(mimeType ?? '', bytes));
    equal(`pictures of ${mimeType}`, [(await all('img')).length, await heard()], [0, 0]);
  }
  // The control: the same drawing as a part of the page.
  const inlined = card.replace('picture.src =', `box.append(document.createRange().createContextualFragment(atob(data)));\n    picture.src =`);
  assert.notEqual(inlined, card);
  await open({ html: inlined, steps: [['sendToolInput', { arguments: {} }], ['sendToolResult', picture('image/svg+xml', data)]] });
  assert.ok(await heard() > 0, 'the attack does not work at all');
});

await report.check('controls and characters that turn text around are shown as what they are', async () => {
  const code = String.raw`print("a\u202Eb\u2066c\x1b[31mred\x1b[0m\x07\x1b]0;title\x07\u200bz")`;
  const result = await call(code);
  const raw = result.content[0].text;
  // The control: they are in the result.
  for (const character of ['\u202e', '\u2066', '\x07', '\x1b', '\u200b']) assert.ok(raw.includes(character));
  await showResult(code + ' # \u202e\u2066', result);
  equal('output', await text('#out pre'), 'a\u27e8U+202E\u27e9b\u27e8U+2066\u27e9cred\u27e8U+0007\u27e9\u27e8U+001B\u27e9]0;title\u27e8U+0007\u27e9\u27e8U+200B\u27e9z');
  const page = await chromium.evaluate('document.body.textContent', { inFrame: true });
  assert.ok(!/[\x00-\x08\x0e-\x1f\u202a-\u202e\u2066-\u2069]/.test(page.replace(/[^]*<\/?script/, '')));
  await screenshot('controls');
});

await report.check('it hears its host only', async () => {
  const fake = { jsonrpc: '2.0', method: 'ui/notifications/tool-cancelled', params: { reason: 'not the host' } };
  await open({ steps: [] });
  await chromium.evaluate(`(() => {
    const other = document.createElement('iframe');
    other.srcdoc = ${JSON.stringify(`<script>parent.frames[0].postMessage(${JSON.stringify(fake)}, '*')</script>`)};
    document.body.append(other);
  })()`);
  await new Promise((done) => setTimeout(done, 200));
  equal('title', await text('h1'), 'Verification');
  // The control: the same from the host.
  await chromium.evaluate(`frames[0].postMessage(${JSON.stringify(fake)}, '*')`);
  await settled();
  equal('title', await text('h1'), 'Cancelled');
});

await report.check('it follows the look of its host, ends when asked to, and asks for nothing', async () => {
  const result = await call(SCRIPTS.success);
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
  const results = [[SCRIPTS.success, await call(SCRIPTS.success)], [SCRIPTS.refuted, await call(SCRIPTS.refuted)], [SCRIPTS.refused, await call(SCRIPTS.refused)]];
  for (const theme of ['light', 'dark']) {
    for (const [code, result] of results) {
      await showResult(code, result, { hostContext: { theme } });
      const low = await chromium.evaluate(`(${lowContrast})()`, { inFrame: true });
      equal(`low contrast, ${theme}`, low, []);
    }
  }
});

// The texts whose contrast with what is behind them is below 4.5, in the page.
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
process.exit(report.failed ? 1 : 0);

// A host of MCP Apps in the browser: the official AppBridge, and the card in a frame like that of real hosts.

import { AppBridge, PostMessageTransport } from '@modelcontextprotocol/ext-apps/app-bridge';

// Shows `html`, and sends the notifications in `steps`: each is a method of the bridge, and its parameters.
window.show = async ({ html, hostContext, steps }) => {
  window.heights = [];
  window.heard = [];
  window.problems = [];
  const frame = document.createElement('iframe');
  frame.setAttribute('sandbox', 'allow-scripts');
  frame.title = 'card';
  document.body.replaceChildren(frame);
  const bridge = new AppBridge(null, { name: 'card-test', version: '1' }, {}, { hostContext });
  const isReady = new Promise((resolve) => { bridge.oninitialized = resolve; });
  bridge.onsizechange = ({ height }) => {
    window.heights.push(height);
    frame.style.height = `${height}px`;
  };
  bridge.onerror = (error) => window.problems.push(String(error));
  await bridge.connect(new PostMessageTransport(frame.contentWindow, frame.contentWindow));
  frame.srcdoc = html;
  await isReady;
  window.bridge = bridge;
  for (const [method, params] of steps) await bridge[method](params);
};

// Records messages of scripts in the frame, which must not run.
addEventListener('message', ({ data }) => {
  if (data?.jsonrpc !== '2.0') window.heard?.push(data);
});

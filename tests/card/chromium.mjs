// Drives Chromium by its DevTools protocol over a pipe.

import { spawn } from 'node:child_process';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

export class Chromium {
  #process;
  #next = 1;
  #waiting = new Map();
  #contexts = new Map();
  #errors = [];
  #ended;

  static async start(profile) {
    const chromium = new Chromium();
    const flags = [
      '--headless=new', '--remote-debugging-pipe', '--no-first-run', '--disable-gpu', '--hide-scrollbars',
      '--disable-dev-shm-usage', '--mute-audio', `--user-data-dir=${profile}`,
      // The card's frame runs in its host's process, so that one connection reaches both.
      '--disable-features=IsolateSandboxedIframes', '--disable-site-isolation-trials',
      // Without network.
      '--host-resolver-rules=MAP * ~NOTFOUND', '--disable-background-networking',
    ];
    // Chromium's own sandbox does not start as root. The pages are our own.
    if (process.getuid() === 0) flags.push('--no-sandbox');
    // Chromium's messages, which are printed only if it exits.
    const complaints = join(profile, '..', 'chromium.log');
    const log = openSync(complaints, 'w');
    chromium.#process = spawn(process.env.CHROMIUM, flags, { stdio: ['ignore', log, log, 'pipe', 'pipe'] });
    closeSync(log);
    chromium.#process.once('error', (error) => chromium.#end(error));
    chromium.#process.once('exit', (code, signal) =>
      chromium.#end(new Error(`chromium ended (${signal ?? code}):\n${readFileSync(complaints, 'utf8').slice(-2000)}`)));
    chromium.#process.stdio[3].on('error', () => {});
    chromium.#listen(chromium.#process.stdio[4]);
    const { targetInfos } = await chromium.#send('Target.getTargets');
    const { targetId } = targetInfos.find(({ type }) => type === 'page');
    const { sessionId } = await chromium.#send('Target.attachToTarget', { targetId, flatten: true });
    chromium.session = sessionId;
    for (const domain of ['Page', 'Runtime', 'Accessibility']) await chromium.send(`${domain}.enable`);
    return chromium;
  }

  send(method, params = {}) {
    return this.#send(method, params, this.session);
  }

  // Evaluates an expression in the page, or in the frame within it.
  async evaluate(expression, { inFrame = false } = {}) {
    const contextId = inFrame ? await this.#frame() : undefined;
    const { result, exceptionDetails } = await this.send('Runtime.evaluate', {
      expression, contextId, awaitPromise: true, returnByValue: true,
    });
    if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
    return result.value;
  }

  // Returns the exceptions since the last call.
  errors() {
    return this.#errors.splice(0);
  }

  async close() {
    const ended = new Promise((resolve) => this.#process.once('exit', resolve));
    this.#process.kill();
    await ended;
  }

  async #frame() {
    const { frameTree } = await this.send('Page.getFrameTree');
    const id = frameTree.childFrames?.[0]?.frame.id;
    return this.#contexts.get(id);
  }

  #send(method, params = {}, sessionId = undefined) {
    if (this.#ended) return Promise.reject(this.#ended);
    const id = this.#next++;
    this.#process.stdio[3].write(`${JSON.stringify({ id, method, params, sessionId })}\0`);
    return new Promise((resolve, reject) => this.#waiting.set(id, { resolve, reject, method }));
  }

  // Rejects all pending requests, because the browser has exited.
  #end(error) {
    this.#ended = error;
    for (const { reject } of this.#waiting.values()) reject(error);
    this.#waiting.clear();
  }

  #listen(stream) {
    let rest = [];
    stream.on('data', (chunk) => {
      let end;
      while ((end = chunk.indexOf(0)) >= 0) {
        this.#take(JSON.parse(Buffer.concat([...rest, chunk.subarray(0, end)])));
        rest = [];
        chunk = chunk.subarray(end + 1);
      }
      rest.push(chunk);
    });
    stream.on('error', () => {});
  }

  #take({ id, method, params, result, error }) {
    if (method === 'Runtime.executionContextCreated') {
      const { id: context, auxData } = params.context;
      if (auxData.isDefault) this.#contexts.set(auxData.frameId, context);
    } else if (method === 'Runtime.exceptionThrown') {
      this.#errors.push(params.exceptionDetails.exception?.description ?? params.exceptionDetails.text);
    }
    const waiting = this.#waiting.get(id);
    this.#waiting.delete(id);
    if (error) waiting?.reject(new Error(`${waiting.method}: ${error.message}`));
    else waiting?.resolve(result);
  }
}

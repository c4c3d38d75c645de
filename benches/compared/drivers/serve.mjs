// The request loop that both JavaScript drivers share. `serve.py` describes the protocol.
import { createInterface } from "node:readline";

const SHOWN_BYTES = 1 << 20;

const text = (result) => result.stdout.replace(/\n+$/, "");

// Answers requests with a runner: { keepsState, run(code, timeoutS, keep), reset() }.
export async function serve(start) {
  const began = performance.now();
  const runner = await start();
  const answer = (reply) => process.stdout.write(JSON.stringify(reply) + "\n");
  answer({ start_ms: performance.now() - began, pid: process.pid });
  for await (const line of createInterface({ input: process.stdin })) {
    const request = JSON.parse(line);
    answer(await operations[request.op](runner, request));
  }
  process.exit(0);
}

const operations = {
  async run(runner, { code, timeout_s }) {
    const began = performance.now();
    const result = await runner.run(code, timeout_s, false);
    const ms = performance.now() - began;
    const { ok, stdout, error = "" } = result;
    return { ok, stdout: stdout.slice(0, SHOWN_BYTES), size: stdout.length, error: error.slice(-2000), ms };
  },

  async prepare(runner, { code, timeout_s }) {
    for (let count = 0; count < 2; count++) await runner.run(code, timeout_s, false);
    return {};
  },

  async agent(runner, { commands, printed, timeout_s }) {
    const began = performance.now();
    await runner.reset();
    for (let number = 0; number < commands.length; number++) {
      const first = runner.keepsState ? number : 0;
      const code = commands.slice(first, number + 1).join("\n");
      const result = await runner.run(code, timeout_s, runner.keepsState);
      if (text(result) !== printed.slice(first, number + 1).join("\n"))
        return { ok: false, error: result.error || result.stdout };
    }
    const ms = performance.now() - began;
    await runner.reset();
    return { ok: true, ms, keeps_state: runner.keepsState };
  },

  async rate(runner, { code, printed, seconds, timeout_s }) {
    const began = performance.now();
    let runs = 0;
    while (performance.now() - began < seconds * 1000) {
      const result = await runner.run(code, timeout_s, false);
      if (text(result) !== printed) return { ok: false, error: result.error || result.stdout };
      runs++;
    }
    return { ok: true, runs, seconds: (performance.now() - began) / 1000 };
  },
};

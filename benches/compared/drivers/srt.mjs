// Runs each script under Anthropic's sandbox-runtime, used as a library as its documentation shows.
import { spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

import { serve } from "./serve.mjs";

const { modules, interpreter, scratch, denyRead } = JSON.parse(process.argv[2]);
const entry = createRequire(modules + "/").resolve("@anthropic-ai/sandbox-runtime");

const quote = (argument) => "'" + argument.replaceAll("'", "'\\''") + "'";

await serve(async () => {
  const { SandboxManager } = await import(pathToFileURL(entry));
  await SandboxManager.initialize({
    network: { allowedDomains: [], deniedDomains: [] },
    filesystem: { denyRead, allowWrite: [scratch], denyWrite: [] },
  });

  async function run(code, timeoutS) {
    const cwd = await mkdtemp(scratch + "/run-");
    const command = await SandboxManager.wrapWithSandbox(`${quote(interpreter)} -c ${quote(code)}`);
    const result = await new Promise((resolve) => {
      const env = { PATH: process.env.PATH };
      const child = spawn(command, { shell: true, cwd, detached: true, env, stdio: ["ignore", "pipe", "pipe"] });
      const output = [];
      let error = "";
      const timer = setTimeout(() => {
        error = "timed out ";
        process.kill(-child.pid, "SIGKILL");
      }, timeoutS * 1000);
      child.stdout.on("data", (chunk) => output.push(chunk));
      child.stderr.on("data", (chunk) => (error = (error + chunk).slice(-4000)));
      child.on("close", (code) => {
        clearTimeout(timer);
        resolve({ ok: code === 0, stdout: Buffer.concat(output).toString(), error });
      });
    });
    await rm(cwd, { recursive: true, force: true });
    return result;
  }
  return { keepsState: false, run, reset: async () => {} };
});

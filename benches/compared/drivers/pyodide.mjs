// Runs scripts in Pyodide in a worker thread of Node. Each script has new variables. If a worker does not answer in
// time, it is ended, and the next run starts another worker.
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { Worker, isMainThread, parentPort, workerData } from "node:worker_threads";

import { serve } from "./serve.mjs";

if (isMainThread) {
  const configuration = JSON.parse(process.argv[2]);
  let worker = null;

  const next = (target, event) => new Promise((resolve) => target.once(event, resolve));

  async function start() {
    worker = new Worker(new URL(import.meta.url), { workerData: configuration });
    // Without a listener, an error that a script causes would end this process. The event `exit` follows.
    worker.on("error", (error) => console.error(error));
    if (await Promise.race([next(worker, "message"), next(worker, "exit")]) !== "ready")
      throw new Error("the worker has ended");
  }

  await serve(async () => {
    await start();
    return {
      keepsState: true,
      async run(code, timeoutS, keep) {
        if (!worker) await start();
        worker.postMessage({ code, keep });
        let timer;
        const late = new Promise((resolve) => (timer = setTimeout(resolve, timeoutS * 1000)));
        const died = next(worker, "exit");
        const result = await Promise.race([next(worker, "message"), late, died]);
        clearTimeout(timer);
        if (result && typeof result === "object") return result;
        await worker.terminate();
        worker = null;
        return { ok: false, stdout: "", error: "timed out" };
      },
      async reset() {
        worker?.postMessage({ reset: true });
      },
    };
  });
} else {
  const { modules, wheels } = workerData;
  const { loadPyodide } = await import(pathToFileURL(join(modules, "node_modules/pyodide/pyodide.mjs")));
  const pyodide = await loadPyodide();
  for (const wheel of wheels) pyodide.unpackArchive(new Uint8Array(await readFile(wheel)), "wheel");
  const newVariables = () => pyodide.toPy({ __name__: "__main__" });
  let kept = newVariables();
  const decoder = new TextDecoder();

  parentPort.on("message", ({ code, keep, reset }) => {
    if (reset) {
      kept = newVariables();
      return;
    }
    const output = [];
    pyodide.setStdout({ write: (bytes) => output.push(Buffer.from(bytes)) && bytes.length });
    let error = "";
    const globals = keep ? kept : newVariables();
    try {
      pyodide.runPython(code, { globals });
      pyodide.runPython("import sys; sys.stdout.flush()");
    } catch (raised) {
      error = String(raised).slice(-2000);
    }
    if (!keep) globals.destroy();
    parentPort.postMessage({ ok: !error, stdout: decoder.decode(Buffer.concat(output)), error });
  });
  parentPort.postMessage("ready");
}

// Reads recordings of recorder.py: the messages of one session, and how the server ended.

import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

const APPEAR_MS_MAX = 10_000;

// Waits until `find` returns a value.
async function appears(what, find) {
  const deadline = performance.now() + APPEAR_MS_MAX;
  for (;;) {
    const found = find();
    if (found !== undefined) return found;
    assert.ok(performance.now() < deadline, `${what} did not appear within ${APPEAR_MS_MAX} ms`);
    await sleep(20);
  }
}

export class Recording {
  constructor(path) {
    this.path = path;
  }

  static in(directory) {
    const names = readdirSync(directory).filter((name) => name.endsWith('.jsonl'));
    return names.map((name) => new Recording(join(directory, name)));
  }

  // Returns the only recording in `directory` whose server is running. Other recordings may have ended, because a
  // client may first negotiate the protocol version with a separate process.
  static async ofSession(directory) {
    // A stateless client counts as connected before its first message. So the server may not have started yet.
    return appears('a running server', () => {
      const running = Recording.in(directory).filter((r) => r.all('start').length > 0 && r.all('exit').length === 0);
      return running.length === 1 ? running[0] : undefined;
    });
  }

  // Returns the only recording in `directory` in which a tool was called.
  static async ofClosedSession(directory) {
    const used = Recording.in(directory).filter((r) => r.sent.some((m) => m.method === 'tools/call'));
    assert.ok(used.length === 1, `${used.length} recordings with tool calls, expected one`);
    // The recorder writes its last event up to 0.3 s after the client has closed the connection.
    return appears('the end of the recording', () => (used[0].all('left_over').length > 0 ? used[0] : undefined));
  }

  // Reads the file on each call, because the file may still grow.
  all(event) {
    // While the recorder runs, the last line may be incomplete. Complete lines end in "\n".
    const lines = readFileSync(this.path, 'utf8').split('\n').slice(0, -1);
    return lines.map((line) => JSON.parse(line)).filter((entry) => entry.event === event);
  }

  one(event) {
    const events = this.all(event);
    assert.ok(events.length === 1, `${events.length} events '${event}' recorded, expected one`);
    return events[0];
  }

  get sent() {
    return this.all('to_server').map((event) => JSON.parse(event.line));
  }

  // Returns the server's messages. Fails on a line that is not a JSON-RPC message.
  get received() {
    return this.all('to_client').map(({ line, unfinished }) => {
      assert.ok(!unfinished, `stdout ends inside a line: ${line}`);
      let message;
      try {
        message = JSON.parse(line);
      } catch {
        assert.fail(`a line on stdout is not JSON: ${line}`);
      }
      assert.ok(message?.jsonrpc === '2.0', `not JSON-RPC 2.0: ${line}`);
      return message;
    });
  }

  // Returns the `tools/call` request with this script.
  callWith(code) {
    const calls = this.sent.filter((message) => message.params?.arguments?.code === code);
    assert.ok(calls.length === 1, `${calls.length} calls with ${code} sent, expected one`);
    return calls[0];
  }
}

// Returns the descendants of a process from /proc, as a map from PID to name. Includes zombies.
export function descendants(rootPid) {
  const names = new Map();
  const children = new Map();
  for (const entry of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
    let stat;
    try {
      stat = readFileSync(`/proc/${entry}/stat`, 'utf8');
    } catch {
      continue; // The process has exited.
    }
    // The line is "pid (name) state ppid …". The name may contain spaces and brackets, so only the last bracket ends
    // it.
    const end = stat.lastIndexOf(')');
    const parentPid = Number(stat.slice(end + 2).split(' ')[1]);
    names.set(Number(entry), stat.slice(stat.indexOf('(') + 1, end));
    children.set(parentPid, [...(children.get(parentPid) ?? []), Number(entry)]);
  }
  const found = new Map();
  const waiting = [rootPid];
  while (waiting.length > 0) {
    for (const pid of children.get(waiting.pop()) ?? []) {
      found.set(pid, names.get(pid));
      waiting.push(pid);
    }
  }
  return found;
}

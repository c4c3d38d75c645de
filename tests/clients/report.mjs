// Prints one line per check and remembers whether any failed.

import assert from 'node:assert/strict';
import { inspect, isDeepStrictEqual } from 'node:util';

const CHECK_SECONDS_MAX = 30;

export class Report {
  failed = false;

  constructor(client) {
    this.client = client;
  }

  // The check passes when `body` ends without an exception, in time. A failure doesn't stop the script: the checks
  // after it still say something.
  async check(title, body, secondsMax = CHECK_SECONDS_MAX) {
    let timer;
    const tooLate = new Promise((_, reject) => {
      timer = setTimeout(() => reject(new Error(`not done after ${secondsMax} s`)), secondsMax * 1000);
    });
    try {
      await Promise.race([body(), tooLate]);
      console.log(`ok   ${this.client}: ${title}`);
    } catch (error) {
      this.failed = true;
      console.log(`FAIL ${this.client}: ${title}: ${reason(error)}`);
    } finally {
      clearTimeout(timer);
    }
  }
}

function reason(error) {
  const text = String(error?.message ?? error).replace(/\s+/g, ' ');
  return error instanceof assert.AssertionError ? text : `${error?.name}: ${text}`;
}

export function equal(what, actual, expected) {
  // Not assert.deepEqual: it appends a difference of many lines to the message.
  assert.ok(isDeepStrictEqual(actual, expected), `${what} is ${show(actual)}, expected ${show(expected)}`);
}

export function show(value) {
  return inspect(value, { depth: 6, breakLength: Infinity });
}

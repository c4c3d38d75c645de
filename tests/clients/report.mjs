// Prints one line for each check, and remembers whether a check failed.

import assert from 'node:assert/strict';
import { inspect, isDeepStrictEqual } from 'node:util';

const CHECK_SECONDS_MAX = 30;

export class Report {
  failed = false;

  constructor(client) {
    this.client = client;
  }

  // Passes if `body` ends in time and without an exception. After a failure, the script continues, because later
  // checks are still useful.
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
  // assert.deepEqual is not used, because its message shows a long difference.
  assert.ok(isDeepStrictEqual(actual, expected), `${what} is ${show(actual)}, expected ${show(expected)}`);
}

export function show(value) {
  return inspect(value, { depth: 6, breakLength: Infinity });
}

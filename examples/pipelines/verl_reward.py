"""A reward function for verl: 1.0 for a script that passes its tests, 0.0 for one that does not.

    reward:
      custom_reward_function:
        path: examples/pipelines/verl_reward.py
        name: compute_score        # or compute_score_async, for verl's reward loop

`ground_truth` is what verl's own code datasets have: `{"inputs": [...], "outputs": [...]}`, with `fn_name` for tests by call, as an
object or as JSON. verl has no
score that means "not judged", so that a script which the machine could not run, not even after some time, ends the step with
an error instead of teaching the model that it was wrong.
"""

import asyncio
import time

from qwed_mcp.client import AsyncVerifier, InfraError, Verifier, last_code_block, tests_of

# The maximum number of attempts for a script that could not be run, and the pause between attempts in seconds.
TRIES = 3
PAUSE_SECONDS = 2.0

# The first script starts the program. Each process of verl starts its own.
verifier = Verifier(timeout=10)
async_verifier = AsyncVerifier(timeout=10)


def compute_score(data_source, solution_str, ground_truth, extra_info=None, **_):
    """Returns the score of a reply, and additional values that verl reports."""
    code = last_code_block(solution_str)
    if code is None:
        return score(False)
    for attempt in range(1, TRIES + 1):
        try:
            return score(verifier.run(code, tests=tests_of(ground_truth, code)).verdict())
        except InfraError:
            if attempt == TRIES:
                raise
            time.sleep(PAUSE_SECONDS)


async def compute_score_async(data_source, solution_str, ground_truth, extra_info=None, **_):
    """Returns the same as `compute_score`, without a thread for each reply."""
    code = last_code_block(solution_str)
    if code is None:
        return score(False)
    for attempt in range(1, TRIES + 1):
        try:
            return score((await async_verifier.run(code, tests=tests_of(ground_truth, code))).verdict())
        except InfraError:
            if attempt == TRIES:
                raise
            await asyncio.sleep(PAUSE_SECONDS)


def score(passed):
    return {"score": float(passed), "acc": float(passed)}

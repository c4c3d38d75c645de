"""A scorer for inspect_ai. A reply is correct if its script prints the target.

    inspect eval examples/pipelines/inspect_scorer.py --model …

What could not be judged is unscored: it is in the log with its reason, and in no average.
"""

from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.scorer import CORRECT, INCORRECT, Score, Target, accuracy, scorer, stderr
from inspect_ai.solver import TaskState, generate

from qwed_mcp.client import AsyncVerifier, last_code_block

# The first script starts the program.
verifier = AsyncVerifier(timeout=10)


@scorer(metrics=[accuracy(), stderr()])
def prints_the_target():
    async def score(state: TaskState, target: Target) -> Score:
        code = last_code_block(state.output.completion)
        if code is None:
            return Score(value=INCORRECT, explanation="the reply has no script")
        stdin = state.metadata.get("stdin")
        result = await verifier.run(code, stdin=stdin, expect=target.text)
        if result.passed is None:
            return Score.unscored(reason="scoring_failed", explanation=f"{result.status}: {result.message}")
        return Score(
            value=CORRECT if result.passed else INCORRECT,
            answer=result.stdout,
            explanation=result.stderr or result.status,
            metadata={"status": result.status, "verification_id": result.verification_id},
        )

    return score


@task
def programs() -> Task:
    dataset = [
        Sample(input="Print the sum of the whole numbers from 1 to 100.", target="5050\n"),
        Sample(input="Read a line and print it backwards.", target="cba\n", metadata={"stdin": "abc\n"}),
    ]
    return Task(dataset=dataset, solver=generate(), scorer=prints_the_target())

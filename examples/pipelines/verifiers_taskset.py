"""A taskset for verifiers (0.4): programming tasks whose reward is the verdict of the sandbox.

A reply that could not be judged raises InfraError in the reward, which verifiers records as an error of the rollout: it has no
reward then, and is not trained on.
"""

import verifiers.v1 as vf

from qwed_mcp.client import AsyncVerifier, last_code_block, tests_of

# The first script starts the program.
verifier = AsyncVerifier(timeout=10)


class ProgramData(vf.TaskData):
    """A task, with tests that the model does not see, in the format of its dataset."""

    tests: list[dict]


class ProgramTask(vf.Task[ProgramData]):
    @vf.reward(weight=1.0)
    async def passes(self, trace: vf.Trace) -> float:
        code = last_code_block(trace.last_reply)
        if code is None:
            return 0.0
        result = await verifier.run(code, tests=tests_of(self.data.tests, code))
        return float(result.verdict())


class ProgramConfig(vf.TasksetConfig):
    pass


class ProgramTaskset(vf.Taskset[ProgramTask, ProgramConfig]):
    def load(self) -> list[ProgramTask]:
        rows = [
            (
                "Read two whole numbers from a line and print their sum.",
                [{"input": "3 4\n", "output": "7\n"}, {"input": "-1 1\n", "output": "0\n"}],
            ),
            (
                "Write a function `backwards(text)` that returns a text backwards.",
                [{"type": "function_call", "fn_name": "backwards", "input": ["abc"], "output": "cba"}],
            ),
        ]
        return [ProgramTask(ProgramData(prompt=prompt, tests=tests), self.config.task) for prompt, tests in rows]

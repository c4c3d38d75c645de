"""A sandbox of inspect_ai, named `qwed`, for tools and scorers that run Python scripts.

    import qwed_mcp.integrations.inspect_ai  # registers the sandbox
    Task(dataset=…, solver=[use_tools(python()), generate()], sandbox="qwed")

`exec` runs `python3 -` with the script as its input (also in the form of inspect's tool `python`), `python3 -c CODE`
and `python3 FILE`. Other commands and arguments, and another user, folder or environment, raise PermissionError. A
sample's files are in memory, with plain names. A script may read these files, except files with code, but cannot change
them. A timeout is not retried.
"""

from typing import Any, ClassVar, Literal, overload

from inspect_ai.util import ExecResult, OutputLimitExceededError, SandboxEnvironment, sandboxenv

from ..client import AsyncVerifier
from ..client._verifier import DEFAULT_SECONDS
from ._text import errors_of, verdict_of

COMMANDS = "this sandbox runs only python3 -, python3 -c CODE and python3 FILE, with no other argument or setting"
SCRIPT_IS_INPUT = (["python3"], ["python3", "-"], ["bash", "--login", "-c", "python3 -"])


@sandboxenv(name="qwed")
class ScriptSandbox(SandboxEnvironment):
    """The sandbox of a sample. Assign another `verifier` to change the settings, for all samples."""
    verifier: ClassVar[AsyncVerifier] = AsyncVerifier()

    def __init__(self) -> None:
        self._files: dict[str, bytes] = {}

    @classmethod
    async def sample_init(cls, task_name: str, config: Any, metadata: dict[str, str]) -> dict[str, SandboxEnvironment]:
        return {"default": cls()}

    @classmethod
    async def sample_cleanup(cls, task_name: str, config: Any, environments: Any, interrupted: bool) -> None:
        """Does nothing, because no process and no file belongs to a sample."""

    async def exec(
        self, cmd: list[str], input: str | bytes | None = None, cwd: str | None = None, env: dict[str, str] | None = None,
        user: str | None = None, timeout: int | None = None, timeout_retry: bool = True, concurrency: bool = True,
    ) -> ExecResult[str]:  # fmt: skip
        """Runs a script. The standard error ends with the verdict. `timeout` is at most the timeout of the verifier."""
        given = input.decode() if isinstance(input, bytes) else input or ""
        if cmd in SCRIPT_IS_INPUT:
            code, stdin = given, ""
        elif len(cmd) == 3 and cmd[:2] == ["python3", "-c"]:
            code, stdin = cmd[2], given
        elif len(cmd) == 2 and cmd[0] == "python3" and not cmd[1].startswith("-"):
            code, stdin = await self.read_file(cmd[1]), given
        else:
            raise PermissionError(f"{COMMANDS}: {cmd}")
        if cwd or env or user:
            raise PermissionError(COMMANDS)
        others = {name: content for name, content in self._files.items() if not name.endswith(".py")}
        limit = self.verifier._settings["timeout"] or DEFAULT_SECONDS
        try:
            result = await self.verifier.run(code, stdin=stdin, inputs=others, timeout=min(timeout or limit, limit))
        except ValueError as error:
            raise PermissionError(str(error)) from None
        if result.status == "timeout":
            raise TimeoutError("the script timed out")
        if result.status == "output_cap":
            raise OutputLimitExceededError("1 MiB", result.stdout)
        errors = "\n".join(filter(None, [errors_of(result), verdict_of(result)]))
        return ExecResult(result.status == "ok", 1 if result.exit_code is None else result.exit_code, result.stdout, errors)

    async def write_file(self, file: str, contents: str | bytes) -> None:
        self._files[file] = contents.encode() if isinstance(contents, str) else contents

    @overload
    async def read_file(self, file: str, text: Literal[True] = True) -> str: ...
    @overload
    async def read_file(self, file: str, text: Literal[False]) -> bytes: ...
    async def read_file(self, file: str, text: bool = True) -> str | bytes:
        if file not in self._files:
            raise FileNotFoundError(file)
        return self._files[file].decode() if text else self._files[file]

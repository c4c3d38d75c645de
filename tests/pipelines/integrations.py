#!/usr/bin/env python3
"""Tests the modules in `qwed_mcp.integrations`. Frameworks call them, with scripted models and the program.

    ENVIRONMENT/bin/python tests/pipelines/integrations.py --program PROGRAM --verl FOLDER --open-webui FOLDER

The folders have the sources of verl and Open WebUI. The test loads their modules that send requests from these
sources. The exit code is 1 if a test fails.
"""

import argparse
import importlib.util
import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import time
import types
import unittest
import unittest.mock

from aiohttp import web

from qwed_mcp.client import AsyncVerifier, ClosedError, InfraError, Result, Verifier
from qwed_mcp.integrations import _text

TESTS = pathlib.Path(__file__).parent
STAND_IN = TESTS / "stand_in.py"
SECONDS_MAX = 60

CHECKED = "total = sum(range(101))\nprint(total)\nassert total == 5050"
UNCHECKED = "print(sum(range(101)))"
REFUTED = "total = sum(range(101))\nassert total == 5000"
VACUOUS = "total = 5050\nassert total == total"
BLOCKED = "import os\nos.system('id')"
# Each script, and a pattern for the text that the model reads about its result.
SCRIPTS = {
    CHECKED: r"\ASTDOUT:\n5050\n\nVerdict: verified\Z",
    UNCHECKED: r"\ASTDOUT:\n5050\n\nVerdict: nothing_checked\. Nothing was verified\Z",
    REFUTED: r"AssertionError\n\nVerdict: refuted\nline 2: total == 5000 failed; total = 5050\Z",
    VACUOUS: r"\AVerdict: vacuous\. Nothing was verified\nline 2: total == total cannot fail: constant\Z",
    BLOCKED: r"\ASTDERR:\nQWED blocked .*os\.system.*\n\nVerdict: blocked\. Nothing was verified\Z",
}
OUTCOMES = ["verified", "nothing_checked", "refuted", "vacuous", "blocked"]
# The stand-in dies at this script, so the script is never judged.
UNJUDGED = "die"

options = argparse.Namespace()


def load(name, file, **modules):
    """Loads a module from a file. The modules in `modules` replace its imports."""
    spec = importlib.util.spec_from_file_location(name, file)
    module = importlib.util.module_from_spec(spec)
    with unittest.mock.patch.dict(sys.modules, {key.replace("__", "."): value for key, value in modules.items()}):
        spec.loader.exec_module(module)
    return module


class Case(unittest.IsolatedAsyncioTestCase):
    maxDiff = None

    def assert_texts(self, texts):
        """Checks that there is one text for each script, in the same order."""
        self.assertEqual(len(texts), len(SCRIPTS))
        for text, pattern in zip(texts, SCRIPTS.values()):
            self.assertRegex(text, re.compile(pattern))


class Texts(unittest.TestCase):
    def test_the_middle_of_a_long_output_is_omitted(self):
        text = _text.text_of(Result("a", "ok", None, stdout=f"first{'x' * 20_000}last", verification={"outcome": "verified"}))
        self.assertRegex(text, r"\ASTDOUT:\nfirstx+\n\[10009 characters omitted\]\nx+last\n\nVerdict: verified\Z")
        self.assertEqual(text.count("x"), 10_000 - len("firstlast"))

    def test_another_end_is_named(self):
        result = Result("a", "timeout", None, verification={"outcome": "inconclusive"})
        self.assertEqual(_text.text_of(result), "Verdict: inconclusive (timeout). Nothing was verified")


    def test_a_script_that_cannot_be_sent_is_not_a_fault_of_the_machine(self):
        with Verifier() as verifier:
            [result] = verifier.map(["'\ud800'"])
        pattern = r"\ASTDERR:\ncode has an unpaired surrogate.*\n\nVerdict: none, because the script could not be sent\Z"
        self.assertRegex(_text.text_of(result), pattern)


class LangChain(Case):
    def agent(self, scripts, **settings):
        from langchain.agents import create_agent
        from langchain_core.language_models import GenericFakeChatModel
        from langchain_core.messages import AIMessage

        from qwed_mcp.integrations.langchain import verification_tool

        class Model(GenericFakeChatModel):
            def bind_tools(self, tools, **_):
                return self

        replies = [self.call(script) for script in scripts] + [AIMessage("done")]
        return create_agent(Model(messages=iter(replies)), [verification_tool(**settings)])

    def call(self, script):
        from langchain_core.messages import AIMessage

        return AIMessage("", tool_calls=[{"name": "verify_python", "args": {"code": script}, "id": str(hash(script))}])

    def assert_conversation(self, state):
        messages = [message for message in state["messages"] if message.type == "tool"]
        self.assert_texts([message.content for message in messages])
        self.assertEqual([message.artifact.outcome for message in messages], OUTCOMES)
        self.assertEqual(state["messages"][-1].text, "done")

    async def test_an_agent(self):
        question = {"messages": [("user", "Check it.")]}
        self.assert_conversation(self.agent(SCRIPTS, timeout=20).invoke(question))
        self.assert_conversation(await self.agent(SCRIPTS, timeout=20).ainvoke(question))

    async def test_a_tool_node(self):
        from langgraph.graph import MessagesState, StateGraph
        from langgraph.prebuilt import ToolNode

        from qwed_mcp.integrations.langchain import verification_tool

        graph = StateGraph(MessagesState).add_node("tools", ToolNode([verification_tool()])).set_entry_point("tools").compile()
        for state in [graph.invoke({"messages": [self.call(CHECKED)]}), await graph.ainvoke({"messages": [self.call(CHECKED)]})]:
            self.assertRegex(state["messages"][-1].content, SCRIPTS[CHECKED])
            self.assertEqual(state["messages"][-1].artifact.stdout, "5050")

    async def test_an_unjudged_script_has_no_message(self):
        question = {"messages": [("user", "Check it.")]}
        with self.assertRaisesRegex(InfraError, "infra_error"):
            self.agent([UNJUDGED], binary=STAND_IN).invoke(question)
        with self.assertRaisesRegex(InfraError, "infra_error"):
            await self.agent([UNJUDGED], binary=STAND_IN).ainvoke(question)


class OpenAIAgents(Case):
    async def converse(self, scripts, **settings):
        """Returns the tool outputs that the framework shows to the model."""
        from agents import Agent, Model, ModelResponse, Runner, Usage, set_tracing_disabled
        from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

        from qwed_mcp.integrations.openai_agents import verification_tool

        set_tracing_disabled(True)
        shown = []

        class Scripted(Model):
            async def get_response(self, system_instructions, input, model_settings, tools, *_, **__):
                shown[:] = [item["output"] for item in input if item.get("type") == "function_call_output"]
                if len(shown) < len(scripts):
                    arguments = json.dumps({"code": scripts[len(shown)]})
                    call = {"call_id": str(len(shown)), "name": tools[0].name, "arguments": arguments}
                    output = ResponseFunctionToolCall(type="function_call", **call)
                else:
                    text = ResponseOutputText(type="output_text", text="done", annotations=[])
                    message = {"id": "message", "role": "assistant", "status": "completed", "content": [text]}
                    output = ResponseOutputMessage(type="message", **message)
                return ModelResponse(output=[output], usage=Usage(), response_id=None)

            def stream_response(self, *_, **__):
                raise NotImplementedError

        run = await Runner.run(Agent("checker", tools=[verification_tool(**settings)], model=Scripted()), "Check it.")
        self.assertEqual(run.final_output, "done")
        return shown

    async def test_an_agent(self):
        self.assert_texts(await self.converse(list(SCRIPTS), timeout=20))

    async def test_an_unjudged_script_has_no_output(self):
        from agents import UserError

        with self.assertRaisesRegex(UserError, "infra_error") as raised:
            await self.converse([UNJUDGED], binary=STAND_IN)
        self.assertIsInstance(raised.exception.__cause__, InfraError)


class PydanticAI(Case):
    async def converse(self, scripts, **settings):
        """Returns the message parts with the results of the calls."""
        from pydantic_ai import Agent
        from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart
        from pydantic_ai.models.function import FunctionModel

        from qwed_mcp.integrations.pydantic_ai import verification_toolset

        returned = []

        def scripted(messages, info):
            returned[:] = [part for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]
            if len(returned) == len(scripts):
                return ModelResponse([TextPart("done")])
            [tool] = info.function_tools
            return ModelResponse([ToolCallPart(tool.name, {"code": scripts[len(returned)]})])

        run = await Agent(FunctionModel(scripted), toolsets=[verification_toolset(**settings)]).run("Check it.")
        self.assertEqual(run.output, "done")
        return returned

    async def test_an_agent(self):
        returned = await self.converse(list(SCRIPTS), timeout=20)
        self.assert_texts([part.content for part in returned])
        self.assertEqual([part.metadata.outcome for part in returned], OUTCOMES)

    async def test_an_unjudged_script_has_no_result(self):
        with self.assertRaisesRegex(InfraError, "infra_error"):
            await self.converse([UNJUDGED], binary=STAND_IN)


class Smolagents(unittest.TestCase):
    def run_agent(self, steps, tools=(), arguments=None, **settings):
        """Returns the answer of the agent, and the steps in its memory."""
        from smolagents import ChatMessage, CodeAgent, Model
        from smolagents.memory import ActionStep

        from qwed_mcp.integrations.smolagents import INSTRUCTIONS, SandboxExecutor

        class Scripted(Model):
            replies = iter(steps)

            def generate(self, messages, **_):
                return ChatMessage("assistant", f"Thought.\n<code>\n{next(self.replies)}\n</code>")

        executor = SandboxExecutor(**{"timeout": 20, **settings})
        agent = CodeAgent(list(tools), Scripted(), executor=executor, instructions=INSTRUCTIONS, verbosity_level=-1, max_steps=len(steps))
        self.assertIn(INSTRUCTIONS, agent.system_prompt)
        with agent:
            answer = agent.run("Find it.", additional_args=arguments)
        with self.assertRaises(ClosedError):
            executor("print(1)")
        return answer, [step for step in agent.memory.steps if isinstance(step, ActionStep)]

    def test_a_task_in_two_steps(self):
        steps = ["total = sum(range(limit + 1))\nprint(total)", f"{CHECKED}\nfinal_answer({{'total': total}})"]
        answer, [first, last] = self.run_agent(steps, arguments={"limit": 100, "names": ["a", None]})
        self.assertEqual(answer, {"total": 5050})
        self.assertIn("STDOUT:\n5050\n\nVerdict: nothing_checked. Nothing was verified", first.observations)
        self.assertIn("STDOUT:\n5050\n\nVerdict: verified", last.observations)

    def test_a_step_has_nothing_of_earlier_steps(self):
        _, [_, second, _] = self.run_agent(["total = 1", "print(total)", "final_answer(1)"])
        self.assertIn("NameError: name 'total' is not defined", second.error.message)
        self.assertIn("Verdict: inconclusive", second.error.message)

    def test_failures_are_errors_that_the_model_reads(self):
        answer, [refuted, blocked, lost, _] = self.run_agent([REFUTED, BLOCKED, "final_answer(object())", "final_answer('end')"])
        self.assertEqual(answer, "end")
        self.assertRegex(refuted.error.message, re.compile(SCRIPTS[REFUTED].replace("line 2", "line 4")))
        self.assertRegex(blocked.error.message, re.compile(SCRIPTS[BLOCKED]))
        self.assertIn("the value has the type object", lost.error.message)

    def test_a_variable_named_result_is_no_answer(self):
        answer, [first, _] = self.run_agent(["result = object()", "result = 1\nfinal_answer(2)"])
        self.assertIsNone(first.error)
        self.assertEqual(answer, 2)

    def test_an_answer_can_be_required_to_be_verified(self):
        steps = [f"{UNCHECKED}\nfinal_answer(5050)", f"{CHECKED}\nfinal_answer(total)"]
        answer, [first, _] = self.run_agent(steps, require_verified=True)
        self.assertIn("The final answer is refused", first.error.message)
        self.assertEqual(answer, 5050)

    def test_an_unjudged_step_is_not_a_result(self):
        from smolagents.local_python_executor import PythonExecutor

        from qwed_mcp.integrations.smolagents import SandboxExecutor

        executor = SandboxExecutor(binary=STAND_IN)
        self.assertIsInstance(executor, PythonExecutor)
        with unittest.mock.patch("qwed_mcp.integrations.smolagents.PRELUDE", ""):
            with self.assertRaisesRegex(InfraError, "infra_error"):
                executor(UNJUDGED)

    def test_other_tools_and_values_are_refused(self):
        from smolagents import WebSearchTool

        with self.assertRaisesRegex(ValueError, "cannot call tools.*: web_search"):
            self.run_agent(["final_answer(1)"], tools=[WebSearchTool()])
        with self.assertRaisesRegex(TypeError, "not JSON serializable"):
            self.run_agent(["final_answer(1)"], arguments={"a": object()})


class Inspect(unittest.TestCase):
    def evaluate(self, solver, files=None, replies=()):
        """Returns the sample of an evaluation."""
        from inspect_ai import Task, eval
        from inspect_ai.dataset import Sample
        from inspect_ai.model import ModelUsage, get_model

        for reply in replies:
            # Without this field, inspect_ai would count tokens with a table from the network.
            reply.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
        model = get_model("mockllm/model", custom_outputs=list(replies))
        task = Task(dataset=[Sample("Check it.", files=files)], solver=solver, sandbox="qwed")
        with tempfile.TemporaryDirectory() as folder:
            [log] = eval(task, model=model, log_dir=folder, display="none", fail_on_error=False)
            return log.samples[0]

    def test_the_python_tool_of_inspect(self):
        from inspect_ai.model import ModelOutput
        from inspect_ai.solver import generate, use_tools
        from inspect_ai.tool import bash, python

        scripts = [CHECKED, UNCHECKED, REFUTED, "print(open('data.csv').read())"]
        calls = [ModelOutput.for_tool_call("mockllm/model", "python", {"code": script}) for script in scripts]
        calls += [ModelOutput.for_tool_call("mockllm/model", "bash", {"command": "ls"})]
        replies = [*calls, ModelOutput.from_content("mockllm/model", "done")]
        sample = self.evaluate([use_tools(python(), bash()), generate()], {"data.csv": "a,b"}, replies)
        self.assertIsNone(sample.error)
        checked, unchecked, refuted, read, listed = [message for message in sample.messages if message.role == "tool"]
        self.assertEqual(checked.text, "Verdict: verified\n5050")
        self.assertEqual(unchecked.text, "Verdict: nothing_checked. Nothing was verified\n5050")
        self.assertIn("Verdict: refuted\nline 2: total == 5000 failed; total = 5050", refuted.text)
        self.assertIn("a,b", read.text)
        self.assertEqual(listed.error.type, "permission")
        self.assertIn("this sandbox runs only python3", listed.error.message)

    def in_sample(self, check, **options):
        """Runs a coroutine in a sample with the sandbox. Returns the sample."""
        from inspect_ai.solver import solver
        from inspect_ai.util import sandbox

        import qwed_mcp.integrations.inspect_ai  # noqa: F401

        @solver
        def checked():
            async def solve(state, generate):
                await check(sandbox())
                return state

            return solve

        return self.evaluate(checked(), **options)

    def test_commands(self):
        from inspect_ai.util import OutputLimitExceededError

        async def check(sandbox):
            run = sandbox.exec
            for command, given in [
                (["python3"], "print(6 * 7)"),
                (["python3", "-"], b"print(6 * 7)"),
                (["python3", "-c", "print(6 * int(input()))"], "7\n"),
                (["python3", "main.py"], "7\n"),
            ]:
                done = await run(command, input=given)
                self.assertEqual((done.success, done.returncode, done.stdout), (True, 0, "42"), command)
                self.assertEqual(done.stderr, "Verdict: nothing_checked. Nothing was verified")
            failed = await run(["python3", "-c", "raise SystemExit(3)"])
            self.assertEqual((failed.success, failed.returncode), (False, 3))
            blocked = await run(["python3", "-c", BLOCKED])
            self.assertEqual((blocked.success, blocked.returncode), (False, 1))
            self.assertIn("QWED blocked", blocked.stderr)
            with unittest.mock.patch.object(AsyncVerifier, "run", autospec=True, side_effect=AsyncVerifier.run) as called:
                with self.assertRaises(TimeoutError):
                    await run(["python3", "-c", "import time\ntime.sleep(600)"], timeout=5)
                await run(["python3", "-c", "print(1)"], timeout=600)
            self.assertEqual([call.kwargs["timeout"] for call in called.call_args_list], [5, 30])
            with self.assertRaises(OutputLimitExceededError):
                await run(["python3", "-c", "print('x' * 2_000_000)"])
            for command in [["bash", "-c", "ls"], ["ls"], ["python3", "main.py", "a"], ["python3", "-m", "this"], ["python3", "-V"]]:
                with self.assertRaisesRegex(PermissionError, "this sandbox runs only python3"):
                    await run(command)
            for setting in [{"user": "root"}, {"cwd": "a"}, {"env": {"A": "1"}}]:
                with self.assertRaisesRegex(PermissionError, "this sandbox runs only python3"):
                    await run(["python3", "main.py"], **setting)

        sample = self.in_sample(check, files={"main.py": "print(6 * int(input()))"})
        self.assertIsNone(sample.error, sample.error and sample.error.message)

    def test_files(self):
        async def check(sandbox):
            await sandbox.write_file("note.txt", "a\r\nb")
            await sandbox.write_file("data", b"\xff")
            self.assertEqual(await sandbox.read_file("note.txt"), "a\r\nb")
            self.assertEqual(await sandbox.read_file("data", text=False), b"\xff")
            with self.assertRaises(UnicodeDecodeError):
                await sandbox.read_file("data")
            for name in ["missing", "missing.py"]:
                with self.assertRaises(FileNotFoundError):
                    await sandbox.read_file(name)
            with self.assertRaises(FileNotFoundError):
                await sandbox.exec(["python3", "missing.py"])
            done = await sandbox.exec(["python3", "-c", "print(open('data', 'rb').read(), open('note.txt').read())"])
            self.assertEqual(done.stdout, "b'\\xff' a\nb")
            await sandbox.write_file("folder/note.txt", "a")
            with self.assertRaisesRegex(PermissionError, "not a plain file name"):
                await sandbox.exec(["python3", "-c", "print(1)"])

        sample = self.in_sample(check)
        self.assertIsNone(sample.error, sample.error and sample.error.message)

    def test_an_unjudged_script_is_an_error_of_the_sample(self):
        from qwed_mcp.integrations.inspect_ai import ScriptSandbox

        async def check(sandbox):
            await sandbox.exec(["python3", "-c", UNJUDGED])

        with unittest.mock.patch.object(ScriptSandbox, "verifier", AsyncVerifier(binary=STAND_IN)):
            sample = self.in_sample(check)
        self.assertIn("InfraError", sample.error.traceback)


class LiteLLM(Case):
    async def converse(self, scripts, **settings):
        """Returns the texts that the model reads. The model is a scripted server with OpenAI's API, which litellm
        calls."""
        os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
        import litellm
        from litellm.integrations.code_interpreter_interception.handler import CodeInterpreterInterceptionLogger

        from qwed_mcp.integrations.litellm import ScriptSandbox

        shown = []

        async def complete(request):
            body = await request.json()
            shown[:] = [message["content"] for message in body["messages"] if message["role"] == "tool"]
            message = {"role": "assistant", "content": "done"}
            if len(shown) < len(scripts):
                function = {"name": body["tools"][0]["function"]["name"], "arguments": json.dumps({"code": scripts[len(shown)]})}
                message = {"role": "assistant", "tool_calls": [{"id": str(len(shown)), "type": "function", "function": function}]}
            choice = {"index": 0, "finish_reason": "stop", "message": message}
            return web.json_response({"id": "a", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]})

        application = web.Application()
        application.router.add_post("/chat/completions", complete)
        handler = CodeInterpreterInterceptionLogger(sandbox_config=ScriptSandbox(**settings))
        async with Server(application) as url:
            with unittest.mock.patch.object(litellm, "callbacks", [handler]):
                reply = await litellm.acompletion(
                    "openai/m", [{"role": "user", "content": "Check it."}], api_base=url, api_key="none",
                    tools=[{"type": "code_interpreter"}], max_agentic_loops=9,
                )  # fmt: skip
        self.assertEqual(reply.choices[0].message.content, "done")
        return shown

    async def test_the_code_interpreter(self):
        checked, unchecked, refuted, blocked = await self.converse([CHECKED, UNCHECKED, REFUTED, BLOCKED], timeout=20)
        self.assertEqual(checked, "5050\nVerdict: verified")
        self.assertEqual(unchecked, "5050\nVerdict: nothing_checked. Nothing was verified")
        for text, script in [(refuted, REFUTED), (blocked, BLOCKED)]:
            self.assertTrue(text.startswith("[execution error] "), text)
            self.assertRegex(text.removeprefix("[execution error] "), re.compile(SCRIPTS[script]))

    async def test_an_unjudged_script_has_no_output(self):
        [text] = await self.converse([UNJUDGED], binary=STAND_IN)
        self.assertNotIn("Verdict", text)
        self.assertRegex(text, "(?i)sandbox")


class Server:
    """Runs an aiohttp server on a free port until the end of the block."""

    def __init__(self, application):
        self._runner = web.AppRunner(application)

    async def __aenter__(self):
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        return f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    async def __aexit__(self, *_):
        await self._runner.cleanup()


class OpenWebUI(Case):
    TOKEN = "0123456789abcdef0123456789abcdef"

    @classmethod
    def setUpClass(cls):
        env, codec = types.ModuleType("env"), types.ModuleType("codec")
        env.AIOHTTP_CLIENT_ALLOW_REDIRECTS, codec.JSONCodec = False, json
        replaced = {"open_webui__env": env, "open_webui__utils__json_codec": codec}
        file = options.open_webui / "open_webui/utils/code_interpreter.py"
        cls.interpreter = load("code_interpreter", file, **replaced)

    async def execute(self, scripts, token=TOKEN, **settings):
        from qwed_mcp.integrations.open_webui import application

        async with Server(application(AsyncVerifier(**settings), self.TOKEN)) as url:
            return [await self.interpreter.execute_code_jupyter(url, script, token) for script in scripts]

    async def test_the_code_interpreter(self):
        # Open WebUI logs an error if a kernel does not end.
        with self.assertNoLogs(level="ERROR"):
            checked, unchecked, refuted, blocked = await self.execute([CHECKED, UNCHECKED, REFUTED, BLOCKED], timeout=20)
        self.assertEqual(checked, {"stdout": "5050", "stderr": "", "result": "Verdict: verified"})
        self.assertEqual(unchecked["result"], "Verdict: nothing_checked. Nothing was verified")
        self.assertIn("AssertionError", refuted["stderr"])
        self.assertEqual(refuted["result"], "Verdict: refuted\nline 2: total == 5000 failed; total = 5050")
        self.assertIn("QWED blocked", blocked["stderr"])
        self.assertEqual(blocked["result"], "Verdict: blocked. Nothing was verified")

    async def test_an_unjudged_script_has_no_result(self):
        [unjudged] = await self.execute([UNJUDGED], binary=STAND_IN)
        self.assertEqual((unjudged["stdout"], unjudged["result"]), ("", ""))
        self.assertRegex(unjudged["stderr"], r"\ANot judged: .*infra_error")

    async def test_other_tokens_are_refused(self):
        for token in ["", "wrong"]:
            with self.assertLogs(level="ERROR"):
                [refused] = await self.execute([CHECKED], token)
            self.assertEqual((refused["stdout"], refused["result"]), ("", ""))
            self.assertIn("403", refused["stderr"])


    async def test_the_command(self):
        command = [sys.executable, "-m", "qwed_mcp.integrations.open_webui"]
        environment = {name: value for name, value in os.environ.items() if name != "JUPYTER_TOKEN"}
        refused = subprocess.run(command, env=environment, capture_output=True, text=True)
        self.assertEqual(refused.returncode, 2)
        self.assertIn("set JUPYTER_TOKEN to a secret", refused.stderr)
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        environment["JUPYTER_TOKEN"] = self.TOKEN
        server = subprocess.Popen([*command, "--port", str(port)], env=environment, stdout=subprocess.PIPE, text=True)
        try:
            self.assertIn(f"127.0.0.1:{port}", server.stdout.readline())
            checked = await self.interpreter.execute_code_jupyter(f"http://127.0.0.1:{port}", CHECKED, self.TOKEN)
        finally:
            server.terminate()
            server.communicate()
        self.assertEqual(checked, {"stdout": "5050", "stderr": "", "result": "Verdict: verified"})
        self.assertEqual(server.returncode, 0)


class Verl(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.requests = load("sandbox_fusion", options.verl / "verl/utils/reward_score/sandbox_fusion/utils.py")
        cls.log = tempfile.TemporaryFile("w+")
        command = [options.program, "serve", "--http", "127.0.0.1:0", "--drain", "0"]
        cls.server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=cls.log)
        limit = time.monotonic() + SECONDS_MAX
        while True:
            cls.log.seek(0)
            found = re.search(r"clients=(\S+)/mcp", cls.log.read())
            if found:
                break
            assert cls.server.poll() is None and time.monotonic() < limit, "the server does not start"
            time.sleep(0.05)
        cls.url = f"{found[1]}/run_code"

    @classmethod
    def tearDownClass(cls):
        cls.server.terminate()
        cls.server.wait(SECONDS_MAX)
        cls.log.close()

    def check(self, code, **tests):
        return self.requests.check_correctness(self.url, {"inputs": ["3 4\n", "-1 1\n"], "outputs": ["7\n", "0\n"], **tests}, code)

    def test_tests_by_standard_output(self):
        code = "a, b = map(int, input().split())\nprint(a + b)"
        self.assertEqual(self.check(code)[0], [True, True])
        self.assertEqual(self.check(code.replace("+", "*"))[0], [False, False])
        results, metadata = self.check("raise SystemExit(3)")
        self.assertEqual((results, metadata[0]["exit_code"]), ([-2, -2], 3))
        results, metadata = self.check(BLOCKED)
        self.assertEqual(results, [-2, -2])
        self.assertIn("QWED blocked", metadata[0]["stderr"])

    def test_tests_by_function_are_refused(self):
        """verl's wrapper uses globals() to find the function. The analysis refuses this."""
        results, metadata = self.check("def f(a):\n    return a", inputs=["1"], outputs=["1"], fn_name="f")
        self.assertEqual(results, [-2])
        self.assertIn("QWED blocked", metadata[0]["stderr"])

    def test_verl_counts_errors_of_the_sandbox_as_such(self):
        results, metadata = self.requests.check_correctness(f"{self.url}_", {"inputs": [""], "outputs": [""]}, "print(1)")
        self.assertEqual((results, metadata[0]["status"]), ([-1], "api_error"))


class Document(unittest.TestCase):
    PAGE = (TESTS.parents[1] / "docs/INTEGRATIONS.md").read_text()

    def test_the_samples_of_the_document(self):
        samples = re.findall(r"```python\n(.*?)```", self.PAGE, re.DOTALL)
        self.assertEqual(len(samples), 2)
        for sample in samples:
            expected = re.findall(r"^print\(.*\)  # (.*)$", sample, re.MULTILINE)
            self.assertEqual(len(expected), sample.count("print("))
            done = subprocess.run([sys.executable, "-c", sample], capture_output=True, text=True)
            self.assertEqual((done.stdout.splitlines(), done.stderr), (expected, ""), sample)
        [shown] = re.findall(r"```text\n(.*?)\n```", self.PAGE, re.DOTALL)
        with Verifier() as verifier:
            text = _text.text_of(verifier.run(REFUTED))
        # Newer Pythons mark the position in a line.
        self.assertEqual(re.sub(r"\n +\^+(?=\n)", "", text), shown)

    def test_the_variables_are_those_of_open_webui(self):
        known = (options.open_webui / "open_webui/config.py").read_text()
        named = re.findall(r"^\| `(CODE_\w+)` \|", self.PAGE, re.MULTILINE)
        self.assertEqual(len(named), 5)
        self.assertEqual([name for name in named if f"'{name}'" not in known], [])

    def test_the_versions_are_the_tested_ones(self):
        pinned = [line for file in TESTS.glob("re*-integrations.txt") for line in file.read_text().split()]
        pinned += [options.verl.name, options.open_webui.name]
        versions = re.findall(r"\| (?:\w+ )?(\d+\.\d+\.\d+)\b", self.PAGE)
        self.assertEqual(len(versions), 8)
        for version in versions:
            self.assertIn(version, [line.split("==")[1] for line in pinned])


if __name__ == "__main__":
    arguments = argparse.ArgumentParser()
    for name in ["--program", "--verl", "--open-webui"]:
        arguments.add_argument(name, type=pathlib.Path, required=True)
    options, rest = arguments.parse_known_args()
    # These variables stop the frameworks from sending telemetry.
    os.environ.update(HF_HUB_OFFLINE="1", DO_NOT_TRACK="1")
    # The frameworks' own warnings are irrelevant here.
    unittest.main(argv=[sys.argv[0], *rest], warnings="ignore")

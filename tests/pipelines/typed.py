"""Code as callers write it, for a type checker. Nothing in this file is run."""

from collections.abc import AsyncIterator, Iterator
from typing import Optional

from typing_extensions import assert_type

from qwed_mcp.client import AsyncVerifier, Result, Script, Test, Verifier, last_code_block


def plain(scripts: Iterator[str]) -> None:
    tests: list[Test] = [{"stdin": "1\n", "stdout": "2\n"}]
    with Verifier(workers=2, timeout=5, memory_mb=512, analysis="report", binary="qwed-mcp") as verifier:
        result = verifier.run("print(1)", stdin="", expect="1\n", tests=[("a", "b")], timeout=1, memory_mb=128, meta=object())
        assert_type(result, Result)
        assert_type(result.passed, Optional[bool])
        assert_type(result.verdict(), bool)
        assert_type(result.judged, Optional[str])
        assert_type(verifier.map(scripts, concurrency=4, ordered=False), Iterator[Result])
        verifier.run("x", expect={"stdout": "1\n"}, tests=tests)
        list(verifier.map([Script("x", id="a"), {"code": "x"}, "x"]))
        verifier.run(b"x")  # type: ignore[arg-type]
        verifier.run("x", timeout="1")  # type: ignore[arg-type]
    assert_type(last_code_block(""), Optional[str])


async def awaited(scripts: AsyncIterator[str]) -> None:
    async with AsyncVerifier() as verifier:
        assert_type(await verifier.run("print(1)"), Result)
        assert_type(verifier.map(scripts), AsyncIterator[Result])
        async for result in verifier.map(scripts):
            assert_type(result, Result)

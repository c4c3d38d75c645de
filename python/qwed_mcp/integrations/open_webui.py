"""Serves the part of Jupyter's API that Open WebUI's code interpreter uses, and runs the code in the sandbox.

    JUPYTER_TOKEN=… python -m qwed_mcp.integrations.open_webui --port 8888

Open WebUI starts a kernel for each script and ends it afterwards, so kernels have no state here. Each execute_request
is a separate script. The value of a cell is the verdict. Files, notebooks and other messages are not supported.
"""

import argparse
import hmac
import json
import os
import uuid
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Handler

from ..client import AsyncVerifier, VerifierError
from ._text import errors_of, shortened, verdict_of

TOKEN_VARIABLE = "JUPYTER_TOKEN"
MESSAGE_BYTES_MAX = 4 * 1024 * 1024


def application(verifier: AsyncVerifier, token: str) -> web.Application:
    """Returns the server. It refuses requests whose query parameter `token` is not equal to `token`."""

    @web.middleware
    async def authenticate(request: web.Request, handler: Handler) -> web.StreamResponse:
        if not hmac.compare_digest(request.query.get("token", "").encode(), token.encode()):
            raise web.HTTPForbidden
        return await handler(request)

    async def create_kernel(_: web.Request) -> web.Response:
        return web.json_response({"id": str(uuid.uuid4()), "name": "python3"}, status=201)

    async def delete_kernel(_: web.Request) -> web.Response:
        return web.Response(status=204)

    async def channels(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(max_msg_size=MESSAGE_BYTES_MAX)
        await socket.prepare(request)
        async for text in socket:
            message = json.loads(text.data)
            if message["header"]["msg_type"] == "execute_request":
                for kind, content in await execute(verifier, message["content"]["code"]):
                    header = {"msg_id": uuid.uuid4().hex, "msg_type": kind}
                    reply = {"header": header, "msg_type": kind, "parent_header": message["header"], "content": content}
                    await socket.send_json(reply)
        return socket

    server = web.Application(middlewares=[authenticate])
    server.on_cleanup.append(lambda _: verifier.close())
    server.add_routes([web.post("/api/kernels", create_kernel), web.delete("/api/kernels/{id}", delete_kernel)])
    server.add_routes([web.get("/api/kernels/{id}/channels", channels)])
    return server


async def execute(verifier: AsyncVerifier, code: str) -> list[tuple[str, dict[str, Any]]]:
    """Runs a script. Returns the kinds and contents of the messages about it."""
    messages: list[tuple[str, dict[str, Any]]]
    try:
        [result] = [result async for result in verifier.map([code])]
        streams = [("stdout", result.stdout), ("stderr", errors_of(result))]
        messages = [("stream", {"name": name, "text": shortened(text)}) for name, text in streams]
        messages.append(("execute_result", {"data": {"text/plain": verdict_of(result)}}))
    except VerifierError as error:
        messages = [("error", {"ename": type(error).__name__, "evalue": str(error), "traceback": [f"Not judged: {error}"]})]
    return [*messages, ("status", {"execution_state": "idle"})]


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description="Serves the part of Jupyter's API that Open WebUI's code interpreter uses.")
    arguments.add_argument("--host", default="127.0.0.1")
    arguments.add_argument("--port", type=int, default=8888)
    options = arguments.parse_args()
    if not os.environ.get(TOKEN_VARIABLE):
        arguments.error(f"set {TOKEN_VARIABLE} to a secret, and give it to Open WebUI")
    web.run_app(application(AsyncVerifier(), os.environ[TOKEN_VARIABLE]), host=options.host, port=options.port)

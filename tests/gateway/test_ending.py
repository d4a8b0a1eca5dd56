"""How a gateway ends: whatever ends it, the saga is left for others, and no server stays behind."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.support import ROOT
from tests.gateway.test_child import is_there

STUBBORN = """
import json, os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    match asked["method"]:
        case "initialize":
            said = {"result": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                               "serverInfo": {"name": "stubborn", "version": "1"}}}
        case "tools/list":
            said = {"result": {"tools": [{"name": "pid", "inputSchema": {"type": "object"}}]}}
        case "tools/call":
            said = {"result": {"content": [{"type": "text", "text": str(os.getpid())}]}}
        case _:
            said = {"error": {"code": -32601, "message": "no"}}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **said}), flush=True)
while True:
    time.sleep(1)
"""
HELLO: dict[str, Any] = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "raw", "version": "1"},
}


def hear_of_interrupts() -> None:
    """What a shell starts in the background is deaf to ^C, and so is all that it starts."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.mark.parametrize(
    ("sign", "code"), [(signal.SIGTERM, -signal.SIGTERM), (signal.SIGINT, 130), (None, 0)], ids=["term", "int", "end"]
)
def test_a_server_that_will_not_end_is_not_left_behind(tmp_path: Path, sign: signal.Signals | None, code: int) -> None:
    async def story() -> None:
        gateway = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "amends", "mcp", "wrap", "--", sys.executable, "-c", STUBBORN),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT), "AMENDS_JOURNAL": str(tmp_path / "amends.db")},
            preexec_fn=hear_of_interrupts,
        )
        assert gateway.stdin is not None
        assert gateway.stdout is not None

        async def ask(number: int, method: str, **params: object) -> dict[str, Any]:
            assert gateway.stdin is not None
            assert gateway.stdout is not None
            asked = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            gateway.stdin.write(json.dumps(asked).encode() + b"\n")
            found: dict[str, Any] = json.loads(await gateway.stdout.readline())
            return found

        await ask(1, "initialize", **HELLO)
        gateway.stdin.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
        answer = await ask(2, "tools/call", name="pid", arguments={})
        pid = int(answer["result"]["content"][0]["text"])
        assert is_there(pid)
        if sign is None:
            gateway.stdin.close()
        else:
            gateway.send_signal(sign)
        assert await gateway.wait() == code
        while is_there(pid):
            await asyncio.sleep(0)

    asyncio.run(asyncio.wait_for(story(), 60))

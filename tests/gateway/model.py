"""A model that says what a test has written: the Messages API as Claude Code asks it, streamed, on loopback."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast
from uuid import uuid4

Block = dict[str, Any]
Turn = Callable[[list[Any]], Block]
"""What the model answers to all messages so far: one block."""


def says(text: str) -> Turn:
    return lambda _: {"type": "text", "text": text}


def calls(tool: str, **args: Any) -> Turn:
    """A call of a tool; each turn has an id of its own."""
    return lambda messages: {
        "type": "tool_use",
        "id": f"toolu_{len(answers(messages)):03}",
        "name": tool,
        "input": args,
    }


def repeats_the_answer(messages: list[Any]) -> Block:
    """Say what the last tool answered."""
    return {"type": "text", "text": "\n".join(answers(messages)[-1:])}


def answers(messages: list[Any]) -> list[str]:
    """What the tools have answered so far."""
    seen = [block for message in messages for block in _blocks(message["content"])]
    results = [block["content"] for block in seen if block.get("type") == "tool_result"]
    return ["".join(str(part.get("text", "")) for part in _blocks(one)) for one in results]


def _blocks(content: Any) -> list[Block]:
    return cast("list[Block]", content) if isinstance(content, list) else [{"type": "text", "text": content}]


class Asked:
    """What the model was shown by a client that had tools to offer."""

    def __init__(self, turns: Sequence[Turn]) -> None:
        self.told: list[str] = []
        """What the tools answered, as the model saw it."""
        self._turns = list(turns)
        self._lock = threading.Lock()

    def answer(self, request: dict[str, Any]) -> Block:
        """The turn after the answers that it shows; a request without tools is the client's own, for a title, say."""
        if not any(str(tool.get("name", "")).startswith("mcp__") for tool in request.get("tools", [])):
            return {"type": "text", "text": "ok"}
        seen = answers(request["messages"])
        with self._lock:
            if len(seen) >= len(self.told):
                self.told = seen
        turn = self._turns[len(seen)] if len(seen) < len(self._turns) else says("That is all.")
        return turn(request["messages"])


def _events(block: Block, model: str) -> Generator[tuple[str, dict[str, Any]]]:
    usage = {"input_tokens": 1, "output_tokens": 1}
    message: dict[str, Any] = {
        "id": f"msg_{uuid4().hex}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": None,
    }
    yield "message_start", {"message": {**message, "stop_sequence": None, "usage": usage}}
    is_call = block["type"] == "tool_use"
    begun: Block = {**block, "input": {}} if is_call else {"type": "text", "text": ""}
    yield "content_block_start", {"index": 0, "content_block": begun}
    delta = (
        {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        if is_call
        else {"type": "text_delta", "text": block["text"]}
    )
    yield "content_block_delta", {"index": 0, "delta": delta}
    yield "content_block_stop", {"index": 0}
    reason = "tool_use" if is_call else "end_turn"
    yield "message_delta", {"delta": {"stop_reason": reason, "stop_sequence": None}, "usage": usage}
    yield "message_stop", {}


@contextmanager
def model(*turns: Turn) -> Generator[tuple[str, Asked]]:
    """Its address, and what it was asked. It answers on loopback alone, and is gone afterwards."""
    asked = Asked(turns)

    class Answering(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self) -> None:
            self._send(b"", "text/plain")

        def do_GET(self) -> None:
            self._send(b"{}", "application/json")

        def do_POST(self) -> None:
            request = cast("dict[str, Any]", json.loads(self.rfile.read(int(self.headers["content-length"])) or "{}"))
            if "/messages" not in self.path or "count_tokens" in self.path:
                self._send(b'{"input_tokens": 1}', "application/json")
                return
            block = asked.answer(request)
            told = list(_events(block, str(request.get("model", "m"))))
            if request.get("stream"):
                lines = [f"event: {name}\ndata: {json.dumps({'type': name, **body})}\n\n" for name, body in told]
                self._send("".join(lines).encode(), "text/event-stream")
            else:
                whole = {**told[0][1]["message"], "content": [block], "stop_reason": "end_turn"}
                self._send(json.dumps(whole).encode(), "application/json")

        def _send(self, body: bytes, kind: str) -> None:
            self.send_response(200)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    server.daemon_threads = True
    serving = threading.Thread(target=server.serve_forever, daemon=True)
    serving.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", asked
    finally:
        server.shutdown()
        server.server_close()
        serving.join()

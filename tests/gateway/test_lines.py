"""Lines over stdin and stdout: in whatever pieces they come, whoever reads slowly, whatever else is printed."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import anyio
import pytest
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCNotification, JSONRPCRequest

from amends.gateway import lines
from amends.gateway.lines import MessageReader, MessageWriter, message_of

ECHO = """
import asyncio, os
from amends.gateway.lines import claimed_lines

async def main():
    with claimed_lines() as (read, write):
        print("a stray word")
        os.system("echo from a child; cat")
        async for message in read:
            await write.send(message)
            break
        await write.aclose()
    print("after", flush=True)

asyncio.run(main())
"""
PING = '{"jsonrpc":"2.0","id":1,"method":"ping"}'
LONGEST_S = 60


def note(method: str, **params: object) -> SessionMessage:
    return SessionMessage(JSONRPCNotification(jsonrpc="2.0", method=method, params=params))


def spelled(method: str, text: str = "") -> bytes:
    return b'{"jsonrpc":"2.0","method":"%s","params":{"text":"%s"}}' % (method.encode(), text.encode())


def said(item: SessionMessage | Exception) -> str:
    if isinstance(item, Exception):
        return "?"
    assert isinstance(item.message, JSONRPCNotification | JSONRPCRequest)
    return item.message.method


def read_from(*pieces: bytes) -> list[str]:
    """The methods that are read where a stream comes in these pieces."""

    async def read() -> list[str]:
        ends, taken = os.pipe(), threading.Event()

        def write() -> None:
            with suppress(BrokenPipeError):
                for piece in pieces:
                    left = piece
                    while left:
                        left = left[os.write(ends[1], left) :]
            os.close(ends[1])
            taken.set()

        threading.Thread(target=write).start()
        try:
            async with MessageReader(ends[0]) as reader:
                return [said(item) async for item in reader]
        finally:
            os.close(ends[0])
            taken.wait(30)

    return asyncio.run(asyncio.wait_for(read(), LONGEST_S))


ONE, TWO = spelled("one"), spelled("two")


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        ([ONE + b"\n" + TWO + b"\n"], ["one", "two"]),
        ([ONE[:3], ONE[3:] + b"\n" + TWO[:9], TWO[9:] + b"\n"], ["one", "two"]),
        ([ONE + b"\n", TWO], ["one", "two"]),
        ([ONE + b"\r\n\n \n"], ["one"]),
        ([], []),
        ([b"Listening on 80\n" + ONE + b"\n", b"{}\n", b"[[\n"], ["?", "one", "?", "?"]),
        ([b'{"jsonrpc":"2.0","method":"\xff"}\n'], ["\ufffd"]),
        ([spelled("long", "x" * 3_000_000) + b"\n", ONE + b"\n"], ["long", "one"]),
        ([(ONE + b"\n") * 40_000], ["one"] * 40_000),
    ],
    ids=["whole", "in pieces", "cut off", "with a return", "none", "garbage", "characters", "long", "many"],
)
def test_messages_are_what_stands_between_the_ends_of_lines(pieces: list[bytes], expected: list[str]) -> None:
    assert read_from(*pieces) == expected


def test_a_line_without_an_end_is_refused_and_nothing_more_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "LONGEST_LINE", 1_000_000)
    assert read_from(ONE + b"\n", b"x" * 1_200_000, TWO + b"\n") == ["one", "?"]


def test_an_answer_in_letters_that_there_are_not_is_an_error_for_who_waits_for_it() -> None:
    found = message_of(b'{"jsonrpc":"2.0","id":7,"result":{"text":"\\ud800"}}')
    assert isinstance(found, SessionMessage)
    assert isinstance(found.message, JSONRPCError)
    assert found.message.id == 7


def test_what_nobody_can_read_is_shown_so_that_it_does_no_harm() -> None:
    assert "\x1b" not in str(message_of(b"\x1b[2J" + b"x" * 10_000))
    assert len(str(message_of(b"x" * 10_000))) < 200


def test_who_does_not_read_holds_up_nothing_else_and_gets_every_line_in_its_order() -> None:
    """Neither those that were sent side by side nor that of who was cancelled in the middle of it are torn."""

    async def story() -> None:
        ends = os.pipe()
        writer, turns = MessageWriter(ends[1]), 0
        sending = [
            asyncio.create_task(writer.send(note(f"m{number}", text="x" * (number * 25)))) for number in range(400)
        ]
        while turns < 100:  # nobody reads yet, and the loop turns all the same
            turns += 1
            await asyncio.sleep(0)
        assert not sending[-1].done()
        sending[-1].cancel()
        reader = MessageReader(ends[0])
        for number in range(400):
            item = await anext(reader)
            assert isinstance(item, SessionMessage)
            assert item == note(f"m{number}", text="x" * (number * 25))
        await asyncio.wait(sending)
        os.close(ends[1])
        assert [said(item) async for item in reader] == []
        await reader.aclose()
        os.close(ends[0])

    asyncio.run(asyncio.wait_for(story(), LONGEST_S))


def test_who_never_reads_does_not_keep_the_end_waiting() -> None:
    async def story() -> None:
        ends = os.pipe()
        async with MessageWriter(ends[1]) as writer:
            sending = asyncio.create_task(writer.send(note("m", text="x" * 1_000_000)))
            await asyncio.wait({sending}, timeout=0)
        await sending
        with pytest.raises(anyio.ClosedResourceError):
            await writer.send(note("m"))
        for end in ends:
            os.close(end)

    asyncio.run(asyncio.wait_for(story(), LONGEST_S))


def test_a_pipe_that_whoever_shares_it_never_lets_block_is_written_to_all_the_same() -> None:
    async def story() -> None:
        ends = os.pipe()
        os.set_blocking(ends[0], False)
        os.set_blocking(ends[1], False)
        writing = asyncio.create_task(MessageWriter(ends[1]).send(note("m", text="x" * 1_000_000)))
        reader = MessageReader(ends[0])
        assert said(await anext(reader)) == "m"
        await writing
        await reader.aclose()
        for end in ends:
            os.close(end)

    asyncio.run(asyncio.wait_for(story(), LONGEST_S))


def test_who_is_gone_is_told_as_an_error_of_the_stream() -> None:
    async def story() -> None:
        ends = os.pipe()
        os.close(ends[0])
        for size in (10, 100_000):
            with pytest.raises(anyio.BrokenResourceError):
                await MessageWriter(ends[1]).send(note("m", text="x" * size))
        os.close(ends[1])

    asyncio.run(asyncio.wait_for(story(), LONGEST_S))


@pytest.mark.parametrize("source", ["pipe", "file"])
def test_what_else_is_printed_does_not_reach_the_client(tmp_path: Path, source: str) -> None:
    """Nor does a child read what is the server's; afterwards stdout is as it was. A file never has to be waited for."""
    (tmp_path / "asked").write_text(PING + "\n")
    words = [sys.executable, "-c", ECHO]
    if source == "file":
        with (tmp_path / "asked").open() as file, (tmp_path / "told").open("w") as told:
            ran = subprocess.run(words, stdin=file, stdout=told, stderr=subprocess.PIPE, check=True, timeout=60)
        written = (tmp_path / "told").read_text()
    else:
        ran = subprocess.run(words, input=PING.encode() + b"\n", capture_output=True, check=True, timeout=60)
        written = ran.stdout.decode()
    assert written == PING + "\nafter\n"
    assert ran.stderr == b"a stray word\nfrom a child\n"


def test_a_closed_stdin_is_said_plainly() -> None:
    words = [sys.executable, "-c", ECHO]
    ran = subprocess.run(["/bin/sh", "-c", '"$@" <&-', "sh", *words], capture_output=True, check=False, timeout=60)
    assert b"stdin and stdout have to be open" in ran.stderr

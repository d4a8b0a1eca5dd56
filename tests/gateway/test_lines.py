"""Lines over stdin and stdout: in whatever pieces they come, whoever reads slowly, whatever else is printed."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from amends.gateway.lines import LineReader, LineWriter

ECHO = """
import asyncio, os, sys
from mcp.server.stdio import stdio_server
from amends.gateway.lines import claimed_lines

async def main():
    with claimed_lines() as (lines, written):
        async with stdio_server(lines, written) as (read, write):
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


def lines_of(*pieces: bytes) -> list[str]:
    """The lines that are read where a stream comes in these pieces, each after the one before was taken."""

    async def read() -> list[str]:
        ends, taken = os.pipe(), threading.Event()

        def write() -> None:
            for piece in pieces:
                os.write(ends[1], piece)
            os.close(ends[1])
            taken.set()

        threading.Thread(target=write).start()
        try:
            return [line async for line in LineReader(ends[0])]
        finally:
            taken.wait(30)
            os.close(ends[0])

    return asyncio.run(asyncio.wait_for(read(), 60))


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        ([b"one\ntwo\n"], ["one\n", "two\n"]),
        ([b"on", b"e\ntw", b"o\n"], ["one\n", "two\n"]),
        ([b"one\n", b"no end"], ["one\n", "no end"]),
        ([b"one\r\n\n"], ["one\r\n", "\n"]),
        ([], []),
        ([b"\xe2\x82", b"\xac\xff\n"], ["\u20ac\ufffd\n"]),
        ([b"x" * 300_000 + b"\n", b"y\n"], ["x" * 300_000 + "\n", "y\n"]),
    ],
    ids=["whole", "in pieces", "cut off", "with a return", "none", "characters", "long"],
)
def test_lines_are_what_stands_between_their_ends(pieces: list[bytes], expected: list[str]) -> None:
    assert lines_of(*pieces) == expected


def test_who_does_not_read_holds_up_nothing_else_and_gets_every_line_in_its_order() -> None:
    async def story() -> None:
        ends = os.pipe()
        writer, turns = LineWriter(ends[1]), 0

        async def write() -> None:
            for number in range(400):
                await writer.write(f"{number}:" + "x" * (number * 25) + "\n")
                await writer.flush()
            os.close(ends[1])

        writing = asyncio.create_task(write())
        while turns < 100:  # nobody reads yet, and the loop turns all the same
            turns += 1
            await asyncio.sleep(0)
        assert not writing.done()
        read = [line async for line in LineReader(ends[0])]
        await writing
        assert [line.partition(":")[0] for line in read] == [str(number) for number in range(400)]
        assert all(len(line.rstrip("\n")) == len(f"{number}:") + number * 25 for number, line in enumerate(read))
        os.close(ends[0])

    asyncio.run(asyncio.wait_for(story(), 60))


def test_who_is_gone_is_told_as_an_error_of_the_pipe() -> None:
    async def story() -> None:
        ends = os.pipe()
        os.close(ends[0])
        for size in (10, 100_000):
            with pytest.raises(BrokenPipeError):
                await LineWriter(ends[1]).write("x" * size)
        os.close(ends[1])

    asyncio.run(asyncio.wait_for(story(), 60))


@pytest.mark.parametrize("source", ["pipe", "file"])
def test_what_else_is_printed_does_not_reach_the_client(tmp_path: Path, source: str) -> None:
    """Nor does a child read what is the server's; afterwards stdout is as it was. A file cannot be waited for."""
    (tmp_path / "asked").write_text(PING + "\n")
    words = [sys.executable, "-c", ECHO]
    if source == "file":
        with (tmp_path / "asked").open() as file:
            ran = subprocess.run(words, stdin=file, capture_output=True, text=True, check=True, timeout=60)
    else:
        ran = subprocess.run(words, input=PING + "\n", capture_output=True, text=True, check=True, timeout=60)
    assert ran.stdout == PING + "\nafter\n"
    assert ran.stderr == "a stray word\nfrom a child\n"

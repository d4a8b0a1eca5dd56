"""A server's process: it is ended in the protocol's way, whatever it makes of that, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest
from mcp_types import JSONRPCRequest

from amends.gateway.child import started
from tests.gateway.test_lines import note, said

POLITE = "import sys; sys.stdin.read()"
TALKATIVE = "import sys; sys.stdin.read(); print('x' * 1_000_000, flush=True); open(sys.argv[1], 'w').write('all said')"
STUBBORN = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if child := os.fork():
    print('{"jsonrpc":"2.0","method":"%d,%d"}' % (os.getpid(), child), flush=True)
while True:
    time.sleep(1)
"""
ECHO = "import sys\nfor line in sys.stdin: print(line.strip(), flush=True)"


def is_there(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


@pytest.mark.parametrize("program", [POLITE, TALKATIVE], ids=["polite", "talkative"])
def test_the_end_of_its_stdin_ends_it_and_it_can_say_all_that_it_has_to(tmp_path: Path, program: str) -> None:
    async def story() -> None:
        async with started([sys.executable, "-c", program, str(tmp_path / "told")], {}, None, asyncio.Event()):
            pass

    asyncio.run(asyncio.wait_for(story(), 60))
    assert program is POLITE or (tmp_path / "told").read_text() == "all said"


@pytest.mark.parametrize("is_cancelled", [False, True], ids=["left", "cancelled"])
def test_one_that_will_not_end_is_killed_with_all_that_it_has_started(is_cancelled: bool) -> None:
    pids: list[int] = []

    async def use() -> None:
        async with started([sys.executable, "-c", STUBBORN], {}, None, asyncio.Event()) as (read, _):
            pids.extend(map(int, said(await anext(read)).split(",")))
            if is_cancelled:
                task = asyncio.current_task()
                assert task is not None
                asyncio.get_running_loop().call_soon(task.cancel)

    async def story() -> None:
        await asyncio.wait({asyncio.create_task(use())})
        while any(map(is_there, pids)):
            await asyncio.sleep(0)

    asyncio.run(asyncio.wait_for(story(), 60))
    assert len(pids) == 2


def test_it_is_spoken_to_line_by_line_and_no_descriptor_is_left_open() -> None:
    async def story() -> None:
        ended = asyncio.Event()
        async with started([sys.executable, "-c", ECHO], {}, None, ended) as (read, write):
            for size in (0, 300_000):
                await write.send(note("m", text="x" * size))
                item = await anext(read)
                assert not isinstance(item, Exception)
                assert not isinstance(item.message, JSONRPCRequest)
                assert item == note("m", text="x" * size)
            assert not ended.is_set()
        assert ended.is_set()

    before = sorted(Path("/proc/self/fd").iterdir())
    asyncio.run(asyncio.wait_for(story(), 60))
    assert sorted(Path("/proc/self/fd").iterdir()) == before


def test_one_that_cannot_be_started_is_an_error_and_leaves_no_descriptor_open() -> None:
    async def story() -> None:
        with pytest.raises(FileNotFoundError, match="no-such-program"):
            async with started(["no-such-program"], {}, None, asyncio.Event()):
                pass

    before = sorted(Path("/proc/self/fd").iterdir())
    asyncio.run(asyncio.wait_for(story(), 60))
    assert sorted(Path("/proc/self/fd").iterdir()) == before

"""A TCP proxy before PostgreSQL that cuts, delays or holds back what goes through it."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

ANSWER = b"C\x00\x00\x00\x0bCOMMIT\x00"
"""PostgreSQL's word that a COMMIT is done."""
ASKED = b"COMMIT\x00"


class Proxy:
    """`cut_answers`: of so many commits the answer is lost, though they are done. `cut_asks`: so many COMMITs get lost
    on their way. `turns` counts how often a client went on after an answer. `commit_delay_s`: each COMMIT takes so much
    longer to arrive. `is_held`: nothing goes through.
    """

    def __init__(self, port: int, *, commit_delay_s: float = 0.0) -> None:
        self.cut_answers = 0
        self.cut_asks = 0
        self.cuts = 0
        self.commits = 0
        self.turns = 0
        self._is_answered = True
        self.is_held = False
        self.commit_delay_s = commit_delay_s
        self.port = 0
        self._target = port
        self._loop = asyncio.new_event_loop()
        self._writers: set[asyncio.StreamWriter] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._call(self._listen())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cut()
        self._call(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def cut(self) -> None:
        """End every connection now."""
        self._call(self._cut())

    def _call(self, work: Coroutine[Any, Any, object]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._joined, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _close(self) -> None:
        self._server.close()
        left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    async def _cut(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    async def _joined(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.transport.abort()
            return
        both = {writer, back}
        self._writers |= both
        try:
            await asyncio.gather(
                self._pass_on(reader, back, both, self._on_ask), self._pass_on(there, writer, both, self._on_answer)
            )
        finally:
            self._writers -= both
            for one in both:
                one.transport.abort()

    async def _pass_on(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        both: set[asyncio.StreamWriter],
        passes: Callable[[bytes], Coroutine[Any, Any, bool]],
    ) -> None:
        with suppress(OSError):
            while data := await reader.read(65_536):
                while self.is_held:
                    await asyncio.sleep(0.02)
                if not await passes(data):
                    self.cuts += 1
                    break
                writer.write(data)
                await writer.drain()
        for one in both:
            one.transport.abort()

    async def _on_ask(self, data: bytes) -> bool:
        self.turns += self._is_answered
        self._is_answered = False
        if ASKED not in data:
            return True
        self.commits += 1
        if self.cut_asks:
            self.cut_asks -= 1
            return False
        if self.commit_delay_s:
            await asyncio.sleep(self.commit_delay_s)
        return True

    async def _on_answer(self, data: bytes) -> bool:
        self._is_answered = True
        if self.cut_answers and ANSWER in data:
            self.cut_answers -= 1
            return False
        return True

"""`amends serve`, killed by SIGKILL at one point of the request that has the key KILLED_KEY.

| KILLED_AT | the server has                                     |
|-----------|----------------------------------------------------|
| asked     | read the request, and nothing of it is on disk     |
| claimed   | put its key on disk, and done nothing              |
| done      | done it, and the answer is not kept                |
| kept      | kept the answer, and sent nothing                  |
"""

import os
import signal
from importlib import import_module
from typing import Any

from starlette.responses import Response

from amends.__main__ import main
from amends.http.keys import AnswerWays, Keys, Known, Request


class MortalKeys(Keys):
    _mortal = ""

    def _die_at(self, point: str, name: str) -> None:
        if name == self._mortal and os.environ["KILLED_AT"] == point:
            os.kill(os.getpid(), signal.SIGKILL)

    async def answer(self, request: Request, ways: AnswerWays) -> Response:
        if request.key == os.environ["KILLED_KEY"]:
            self._mortal = request.name
            self._die_at("asked", request.name)
        return await super().answer(request, ways)

    async def _write(self, name: str, known: Known, **more: Any) -> bool:
        written = await super()._write(name, known, **more)
        self._die_at("kept" if known.status else "claimed", name)
        return written

    async def _keep(self, name: str, claim: Known, response: Response, **more: Any) -> None:
        self._die_at("done", name)
        await super()._keep(name, claim, response, **more)


if __name__ == "__main__":
    vars(import_module("amends.http.serve"))["Keys"] = MortalKeys
    main()

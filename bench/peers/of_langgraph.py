"""LangGraph: a graph of five nodes, a checkpoint on disk after each."""

from __future__ import annotations

import asyncio
from typing import TypedDict

from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import START, StateGraph

from bench.peers.shape import STEPS, given, run


class Seen(TypedDict):
    """What the nodes hand on."""

    n: int


async def step(state: Seen) -> Seen:
    return {"n": state["n"] + 1}


async def main() -> None:
    folder, sagas = given()
    async with AsyncSqliteSaver.from_conn_string(str(folder / "langgraph.db")) as saver:
        graph = StateGraph(Seen)
        before = START
        for n in range(STEPS):
            graph.add_node(f"step-{n}", step)
            graph.add_edge(before, f"step-{n}")
            before = f"step-{n}"
        compiled = graph.compile(checkpointer=saver)

        async def one(n: int) -> object:
            return await compiled.ainvoke({"n": 0}, {"configurable": {"thread_id": str(n)}}, durability="sync")

        await run(one, sagas)


asyncio.run(main())

"""Inverses of real servers, which nobody here wrote: done and undone, each world is as it was before, to the byte.

Where a server has no exact inverse, the test says what is left.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp.client.client import Client

from tests.gateway.support import NODE, ROOT, data, do, tell, text, wrapped

MEMORY = """\
version: v1
tools:
  memory.create_entities:
    compensate: {tool: delete_entities, args: {entityNames: "${result.entities[*].name}"}}
  memory.create_relations:
    compensate: {tool: delete_relations, args: {relations: "${result.relations}"}}
  memory.add_observations:
    compensate:
      tool: delete_observations
      args:
        deletions:
          each: "${result.results}"
          make: {entityName: "${item.entityName}", observations: "${item.addedObservations}"}
  memory.delete_observations:
    before: {tool: open_nodes, args: {names: "${args.deletions[*].entityName}"}}
    compensate:
      tool: add_observations
      args:
        observations:
          each: "${before.entities}"
          make: {entityName: "${item.name}", contents: "${item.observations}"}
  memory.delete_relations: {compensate: {tool: create_relations, args: {relations: "${args.relations}"}}}
  memory.delete_entities: {no_rollback: its relations to others go with it}
  memory.read_graph: {read_only: true}
  memory.search_nodes: {read_only: true}
  memory.open_nodes: {read_only: true}
  memory.*: {failed_when: {error: true}}
"""
TASKS = """\
version: v1
tools:
  tasks.update_task:
    before: {tool: open_task_details, args: {taskId: "${args.taskId}"}}
    compensate:
      tool: update_task
      args:
        requestId: "${args.requestId}"
        taskId: "${args.taskId}"
        title: "${before.task.title}"
        description: "${before.task.description}"
  tasks.add_tasks_to_request:
    compensate:
      - {tool: delete_task, args: {requestId: "${args.requestId}", taskId: "${result.newTasks[0].id}"}}
  tasks.request_planning: {no_rollback: the server has no tool that removes a request}
  tasks.mark_task_done: {no_rollback: what is done stays done}
  tasks.approve_*: {no_rollback: an approval is not taken back}
  tasks.delete_task: {no_rollback: a task that is made again has another id}
  tasks.list_requests: {read_only: true}
  tasks.open_task_details: {read_only: true}
  tasks.get_next_task: {read_only: true}
  tasks.*: {failed_when: {error: true}}
"""
GIT = """\
version: v1
patterns: {branch: "On branch {name}"}
tools:
  git.git_checkout:
    before: {tool: git_status, args: {repo_path: "${args.repo_path}"}}
    compensate:
      {tool: git_checkout, args: {repo_path: "${args.repo_path}", branch_name: "${before.match.branch.name}"}}
  git.git_add: {compensate: {tool: git_reset, args: {repo_path: "${args.repo_path}"}}}
  git.git_create_branch: {no_rollback: the server has no tool that removes a branch}
  git.git_commit: {no_rollback: a commit stays in the repository}
  git.git_reset: {no_rollback: what was staged is not known}
  git.git_status: {read_only: true}
  git.*: {failed_when: {error: true}}
"""


def node_server(name: str, *words: str) -> list[str]:
    return ["node", str(NODE / name / "dist/index.js"), *words]


def page_contracts() -> str:
    """The contracts of the page that a newcomer reads."""
    page = (ROOT / "docs/learn/mcp.md").read_text(encoding="utf-8")
    found = re.search(r"```yaml\n# contracts.yaml\n(.*?)```", page, re.DOTALL)
    assert found is not None
    return found[1]


def files(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


async def undone(client: Client) -> list[str]:
    return [str(one) for one in data(await do(client, "amends_undo", {"all": True}))["taken_back"]]


async def well(client: Client, tool: str, arguments: dict[str, Any]) -> Any:
    answer = await do(client, tool, arguments)
    assert not answer.is_error, text(answer)
    return answer


def test_files_are_what_they_were_and_new_ones_are_put_aside(tmp_path: Path) -> None:
    work = tmp_path / "work"
    (work / "deep").mkdir(parents=True)
    (work / "list.txt").write_bytes("buy milk\nund Äpfel\n".encode())
    (work / "deep/old.txt").write_text("old")
    before = files(work)

    async def story() -> None:
        command = node_server("@modelcontextprotocol/server-filesystem", str(work))
        async with wrapped(tmp_path, command, contracts=page_contracts()) as client:
            path = str(work / "list.txt")
            await well(client, "write_file", {"path": path, "content": "nothing"})
            await well(client, "edit_file", {"path": path, "edits": [{"oldText": "nothing", "newText": "all"}]})
            await well(client, "move_file", {"source": path, "destination": str(work / "deep/moved.txt")})
            await well(client, "write_file", {"path": str(work / "new.txt"), "content": "new"})
            missing = await do(client, "move_file", {"source": str(work / "none"), "destination": str(work / "x")})
            assert missing.is_error
            assert files(work) != before
            assert len(await undone(client)) == 4

    tell(story)
    assert files(work) == {**before, "new.txt.undone": b"new"}


def graph(file: Path) -> list[Any]:
    return sorted(map(json.dumps, map(json.loads, file.read_text().splitlines()))) if file.exists() else []


def test_a_graph_is_what_it_was_and_what_others_had_in_it_stays(tmp_path: Path) -> None:
    file = tmp_path / "memory.jsonl"
    rows: list[dict[str, Any]] = [
        {"type": "entity", "name": "theirs", "entityType": "x", "observations": ["kept", "gone"]},
        {"type": "entity", "name": "other", "entityType": "x", "observations": []},
        {"type": "relation", "from": "theirs", "to": "other", "relationType": "knows"},
    ]
    file.write_text("\n".join(map(json.dumps, rows)))
    before = graph(file)

    async def story() -> None:
        command = node_server("@modelcontextprotocol/server-memory")
        env = {"MEMORY_FILE_PATH": str(file)}
        async with wrapped(tmp_path, command, contracts=MEMORY, env=env) as client:
            made = [{"name": name, "entityType": "y", "observations": ["o"]} for name in ("theirs", "mine")]
            answer = data(await well(client, "create_entities", {"entities": made}))
            assert [one["name"] for one in answer["entities"]] == ["mine"]
            relation = {"from": "mine", "to": "theirs", "relationType": "of"}
            await well(client, "create_relations", {"relations": [relation]})
            added = [{"entityName": "theirs", "contents": ["kept", "added"]}]
            await well(client, "add_observations", {"observations": added})
            gone = [{"entityName": "theirs", "observations": ["gone"]}]
            await well(client, "delete_observations", {"deletions": gone})
            known = {"from": "theirs", "to": "other", "relationType": "knows"}
            await well(client, "delete_relations", {"relations": [known]})
            assert graph(file) != before
            assert len(await undone(client)) == 5

    tell(story)
    assert sorted(graph(file)) == sorted(before) or order_alone(graph(file), before)


def order_alone(after: list[Any], before: list[Any]) -> bool:
    """Whether nothing differs but the order of observations, which the server appends."""

    def bare(rows: list[Any]) -> list[str]:
        read = [json.loads(row) for row in rows]
        return sorted(json.dumps({**row, "observations": sorted(row.get("observations", []))}) for row in read)

    return bare(after) == bare(before)


def test_tasks_are_what_they_were_before(tmp_path: Path) -> None:
    file = tmp_path / "tasks.json"

    async def story() -> None:
        command, env = node_server("@kazuph/mcp-taskmanager"), {"TASK_MANAGER_FILE_PATH": str(file)}
        async with wrapped(tmp_path, command, contracts=TASKS, env=env, options=("--name", "tasks")) as client:
            planned = await well(
                client, "request_planning", {"originalRequest": "r", "tasks": [{"title": "a", "description": "b"}]}
            )
            request = json.loads(text(planned))["requestId"]
            task = json.loads(text(planned))["tasks"][0]["id"]
            before = json.loads(file.read_text())
            await well(
                client, "update_task", {"requestId": request, "taskId": task, "title": "other", "description": "too"}
            )
            more = [{"title": "c", "description": "d"}]
            await well(client, "add_tasks_to_request", {"requestId": request, "tasks": more})
            assert json.loads(file.read_text()) != before
            back = data(await do(client, "amends_undo", {"last": 2}))
            assert len(back["taken_back"]) == 2
            assert json.loads(file.read_text()) == before
            everything = await do(client, "amends_undo", {"all": True})
            assert everything.is_error
            assert "no tool that removes a request" in text(everything)

    tell(story)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "repository"
    root.mkdir()
    git(root, "init", "-q", "-b", "main")
    (root / "a.txt").write_text("a")
    git(root, "add", ".")
    git(root, "-c", "user.name=x", "-c", "user.email=x@y", "commit", "-qm", "first")
    git(root, "branch", "side")
    (root / "b.txt").write_text("b")
    return root


def git(root: Path, *words: str) -> str:
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    asked = ["git", "-C", str(root), *words]
    return subprocess.run(asked, capture_output=True, text=True, check=True, env=environment).stdout


def test_a_repository_is_on_its_branch_again_with_nothing_staged(tmp_path: Path, repository: Path) -> None:
    before = (git(repository, "status", "--porcelain"), git(repository, "branch", "--show-current"))

    async def story() -> None:
        command = [sys.executable, "-m", "mcp_server_git"]
        async with wrapped(tmp_path, command, contracts=GIT, options=("--name", "git")) as client:
            of = {"repo_path": str(repository)}
            await well(client, "git_add", {**of, "files": ["b.txt"]})
            await well(client, "git_checkout", {**of, "branch_name": "side"})
            assert git(repository, "branch", "--show-current") == "side\n"
            assert len(await undone(client)) == 2
            await well(client, "git_add", {**of, "files": ["b.txt"]})
            await well(client, "git_commit", {**of, "message": "stays"})
            answer = await do(client, "amends_undo", {"all": True})
            assert answer.is_error
            assert "a commit stays" in text(answer)

    tell(story)
    assert before == ("?? b.txt\n", "main\n")
    assert git(repository, "branch", "--show-current") == "main\n"

"""The page about the server is run as it stands, on a port that is free."""

import socket
from pathlib import Path

from tests.test_docs import ROOT, blocks, performed, steady

PAGE = ROOT / "docs" / "do" / "serve.md"
PORT = "8722"


def test_what_the_page_shows_is_what_happens(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    copy = tmp_path / PAGE.name
    text = PAGE.read_text(encoding="utf-8")
    copy.write_text(text.replace(PORT, port), encoding="utf-8")
    found = performed(copy, tmp_path)
    shown = {block.line: block.text.replace("\\\n", " ") for block in blocks(text)}
    assert len(found) == 3
    for line, printed in found.items():
        assert steady(printed.replace(port, PORT)) == steady(shown[line])

"""How a conversation begins and ends, as the protocol has it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from lsprotocol import types
from pygls.exceptions import JsonRpcException
from server.editor import Editor
from server.test_editing import DROPPED


@pytest.fixture
def editor(tmp_path: Path) -> Iterator[Editor]:
    editor = Editor(tmp_path)
    yield editor
    if editor.process.returncode is None:
        editor.quit()


def gone(editor: Editor) -> int:
    """The exit code of a server that is told to exit."""
    editor.say(editor.client.exit, None)
    code: int = editor._wait_for(editor.process.wait())
    editor._loop.call_soon_threadsafe(editor._loop.stop)
    return code


@contextmanager
def refused(code: int) -> Iterator[None]:
    """Expects a request to be refused with a code of the protocol."""
    with pytest.raises(JsonRpcException) as raised:
        yield
    assert raised.value.code == code


def test_exit_without_shutdown_fails(editor: Editor) -> None:
    assert gone(editor) == 1


def test_after_shutdown_requests_are_refused_and_nothing_is_linted(editor: Editor, tmp_path: Path) -> None:
    editor.ask(editor.client.shutdown_async, None)
    uri = editor.open(tmp_path / "a.py", DROPPED)
    with refused(-32600):
        editor.hover(uri, 0, 0)
    assert not editor.published
    assert gone(editor) == 0


def test_a_conversation_begins_once(editor: Editor) -> None:
    with refused(-32600):
        editor.ask(editor.client.initialize_async, types.InitializeParams(types.ClientCapabilities()))


def test_nothing_is_answered_before_initialize(tmp_path: Path) -> None:
    editor = Editor(tmp_path, greets=False)
    with refused(-32002):
        editor.hover((tmp_path / "a.py").as_uri(), 0, 0)
    assert gone(editor) == 1

"""How long it takes from a key to diagnostics, as an editor sees it: a client over stdio, the server in its own process.

    python -m benchmarks.keystrokes [--lines N] [--seed N] [FILE...]

Without a FILE, a training program of some 1,000 lines that is made up (benchmarks/training_file.py). At N lines of each
file, drawn by the seed, a statement is typed key by key and taken away again, a name is changed, and a line added; after
each key the diagnostics of that text are waited for. The server looks at once at a key that comes after a pause; at one that
follows another within 20 ms (`debounce`), when none came for as long. Those 20 ms are part of what is measured for keys that
are sent faster than that. At the end the diagnostics are compared with what `devlint check` finds in the same text.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from lsprotocol import types
from pygls.lsp.client import LanguageClient

from benchmarks.training_file import training_file

# (line from 0, column, characters that go, text that comes)
Key = tuple[int, int, int, str]
# Seconds between the keys of somebody who is faster than the server: it waits until none came for 20 ms.
BURST = 0.01


class Typist:
    """A client that types into one file and looks at the clock."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.uri = file.as_uri()
        self.text = file.read_text()
        self.version = 1
        self.shown: types.PublishDiagnosticsParams | None = None
        self._news = asyncio.Event()
        self.client = LanguageClient("keystrokes", "1")
        # (milliseconds, those of them that the server's threads had a processor, whether the text was valid Python)
        self.times: list[tuple[float, float, bool]] = []
        # Milliseconds from the last of several keys to their diagnostics.
        self.bursts: list[float] = []
        # Milliseconds from the last key to the end of a look at everything.
        self.settled: list[float] = []

        @self.client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
        def published(params: types.PublishDiagnosticsParams) -> None:
            if params.uri == self.uri:
                self.shown = params
                self._news.set()

    async def start(self) -> float:
        """Starts the server and opens the file; returns the seconds until its diagnostics were there."""
        folder = self.file.parent.as_uri()
        await self.client.start_io(sys.executable, "-P", "-m", "devlint", "server")
        capabilities = types.ClientCapabilities(
            text_document=types.TextDocumentClientCapabilities(
                publish_diagnostics=types.PublishDiagnosticsClientCapabilities(related_information=True)
            )
        )
        folders = [types.WorkspaceFolder(folder, "work")]
        await self.client.initialize_async(
            types.InitializeParams(capabilities, root_uri=folder, workspace_folders=folders)
        )
        self.client.initialized(types.InitializedParams())
        began = time.perf_counter()
        item = types.TextDocumentItem(self.uri, types.LanguageKind.Python, 1, self.text)
        self.client.text_document_did_open(types.DidOpenTextDocumentParams(item))
        await self._shown()
        return time.perf_counter() - began

    async def _shown(self) -> None:
        while self.shown is None or self.shown.version != self.version:
            self._news.clear()
            await asyncio.wait_for(self._news.wait(), 60)

    async def press(self, key: Key) -> None:
        """Sends one change, and waits for the diagnostics of the text that it makes."""
        before, began = self._worked(), time.perf_counter()
        self._send(key)
        await self._shown()
        taken = (time.perf_counter() - began) * 1000
        self.times.append((taken, self._worked() - before, _is_valid(self.text)))

    async def burst(self, keys: Sequence[Key]) -> None:
        """Sends changes faster than the server looks at each, and waits for the diagnostics of the last one's text."""
        for key in keys:
            await asyncio.sleep(BURST)
            began = time.perf_counter()
            self._send(key)
        await self._shown()
        self.bursts.append((time.perf_counter() - began) * 1000)

    def _send(self, key: Key) -> None:
        line, column, gone, text = key
        lines = self.text.splitlines(keepends=True)
        start = sum(map(len, lines[:line])) + column
        self.text = self.text[:start] + text + self.text[start + gone :]
        self.version += 1
        at = types.Range(types.Position(line, column), types.Position(line, column + gone))
        change = types.TextDocumentContentChangePartial(at, text)
        document = types.VersionedTextDocumentIdentifier(self.version, self.uri)
        self.client.text_document_did_change(types.DidChangeTextDocumentParams(document, [change]))

    def _worked(self) -> float:
        """The milliseconds that the server's threads had a processor so far; 0 where the system doesn't tell."""
        tasks = Path(f"/proc/{self.client._server.pid}/task")
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks.glob("*")) / 1e6

    async def settle(self) -> bool:
        """Stops typing until all was looked at; returns whether that corrects what was shown."""
        before = found_in(self.shown)
        began = time.perf_counter()
        self._news.clear()
        try:
            await asyncio.wait_for(self._news.wait(), 10)
        except TimeoutError:
            # The last look was one at all of it.
            return False
        self.settled.append((time.perf_counter() - began) * 1000)
        return found_in(self.shown) != before

    async def stop(self) -> None:
        """Ends the server."""
        await self.client.shutdown_async(None)
        self.client.exit(None)


def _is_valid(text: str) -> bool:
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


def keys(text: str, line: int) -> Iterator[Key]:
    """What is typed at one line (from 0), and taken back: in the end an empty line has come."""
    whole = text.splitlines()[line]
    indent = whole[: len(whole) - len(whole.lstrip())]
    # A line is added, and a statement typed into it; the editor closes brackets itself.
    yield line, 0, 0, f"{indent}\n"
    column = len(indent)
    for typed in ("n", "o", "t", "e", " ", "=", " ", "l", "e", "n", "()", "s", "t", "r", "()", "1", "2"):
        yield line, column, 0, typed
        column += 1
    yield line, len(indent), len("note = len(str(12))"), ""
    # A character of a name, changed and changed back.
    at = next((c for c in range(len(whole) - 1, -1, -1) if whole[c].isalpha()), None)
    if at is not None:
        yield line + 1, at, 1, "q"
        yield line + 1, at, 1, whole[at]
    yield line, 0, len(indent), ""


def bursts(text: str, line: int) -> Iterator[list[Key]]:
    """What is typed fast at one line (from 0), and taken back: a name, a few characters at once."""
    whole = text.splitlines()[line]
    indent = len(whole) - len(whole.lstrip())
    yield [(line, 0, 0, whole[:indent] + "\n"), *((line, indent + at, 0, typed) for at, typed in enumerate("one"))]
    yield [(line, indent + 3 + at, 0, typed) for at, typed in enumerate((" = ", "l", "e", "n"))]
    yield [(line, indent + 9 + at, 0, typed) for at, typed in enumerate(("()", "1", "2", "3"))]
    yield [(line, indent + at, 1, "") for at in range(13, 9, -1)]
    yield [(line, 0, indent + 10, "")]


def lines_of_code(text: str) -> list[int]:
    """The lines (from 0) on which statements start."""
    return sorted({node.lineno - 1 for node in ast.walk(ast.parse(text)) if isinstance(node, ast.stmt)})


async def measure(file: Path, lines: int, seed: int) -> None:
    """Types into a file, and prints what it took."""
    typist = Typist(file)
    opened = await typist.start()
    draw = random.Random(seed)
    corrected = 0
    for turn in range(lines + 1):
        # Each line that was added stays, empty: what is below has moved.
        for key in keys(typist.text, draw.choice(lines_of_code(typist.text))):
            await typist.press(key)
        for pressed in bursts(typist.text, draw.choice(lines_of_code(typist.text))):
            await typist.burst(pressed)
        corrected += await typist.settle()
        if turn == 0:
            # What is compiled, cached and read at first isn't waited for again.
            typist.times.clear()
            typist.bursts.clear()
            typist.settled.clear()
            corrected = 0
    shown = found_in(typist.shown)
    await typist.stop()
    told = await asyncio.to_thread(check, file, typist.text)
    valid = [time for time in typist.times if time[2]]
    rows = (
        ("all keys", [wall for wall, _, _ in typist.times]),
        ("keys that leave valid Python", [wall for wall, _, _ in valid]),
        ("the same, the server's processor time", [worked for _, worked, _ in valid]),
        (f"the last of four keys, {BURST * 1000:.0f} ms apart", typist.bursts),
    )
    print(
        f"\n{file.name}, {len(typist.text.splitlines())} lines; opened in {opened:.2f} s; {len(shown)} findings,",
        end=" ",
    )
    print("the same as `devlint check`" if shown == told else f"BUT `devlint check` FINDS {told}, not {shown}")
    print("\n| | keys | median | p95 | p99 | longest |\n| --- | --- | --- | --- | --- | --- |")
    for title, times in rows:
        cuts = statistics.quantiles(times, n=100)
        shown_times = (statistics.median(times), cuts[94], cuts[98], max(times))
        print(f"| {title} | {len(times)} | " + " | ".join(f"{t:.0f} ms" for t in shown_times) + " |", flush=True)
    if typist.settled:
        waited = statistics.median(typist.settled)
        print(
            f"\nAll was looked at {waited:.0f} ms after the last key (median), which corrected {corrected} of {lines} first looks."
        )


def found_in(shown: types.PublishDiagnosticsParams | None) -> list[tuple[int, str]]:
    """(line, code) of what the editor shows."""
    return sorted((d.range.start.line + 1, str(d.code)) for d in (shown.diagnostics if shown is not None else ()))


def check(file: Path, text: str) -> list[tuple[int, str]]:
    """(line, code) of what the command line finds in a text in the place of a file."""
    run = [
        sys.executable,
        "-P",
        "-m",
        "devlint",
        "check",
        "-",
        "--stdin-filename",
        str(file),
        "--output-format",
        "json",
    ]
    done = subprocess.run(run, input=text, capture_output=True, text=True, check=False)
    return sorted((found["line"], found["code"]) for found in json.loads(done.stdout))


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--lines", type=int, default=10, help="lines of each file at which something is typed")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder, "train.py")
        made.write_text(training_file())
        for file in options.files or [made]:
            asyncio.run(measure(file.resolve(), options.lines, options.seed))


if __name__ == "__main__":
    main()

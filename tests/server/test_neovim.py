"""The server in Neovim itself, without a screen: a file is opened, its findings are there, a fix is applied and written."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from server.test_editing import DROPPED, project

pytestmark = [pytest.mark.slow, pytest.mark.skipif(shutil.which("nvim") is None, reason="Neovim isn't installed here")]

# What the page says for a Neovim of before 0.11, and then what somebody does by hand.
PAGE = Path(__file__).parent.parent.parent / "docs" / "editors.md"
SCRIPT = """
local out = {}
dofile("init.lua")
vim.cmd("edit a.py")
local function wait(condition) assert(vim.wait(60000, condition, 50)) end
wait(function() return #vim.diagnostic.get(0) > 0 end)
local id = vim.tbl_keys(vim.lsp.buf_get_clients(0))[1]
for _, d in ipairs(vim.diagnostic.get(0)) do
  table.insert(out, { code = d.code, line = d.lnum, message = d.message })
end
vim.api.nvim_win_set_cursor(0, { 5, 0 })
local params = vim.lsp.util.make_range_params()
params.context = { diagnostics = vim.lsp.diagnostic.get_line_diagnostics(0, 4) }
local answers = vim.lsp.buf_request_sync(0, "textDocument/codeAction", params, 60000)
local action = answers[id].result[1]
local client = vim.lsp.get_client_by_id(id)
if not action.edit then
  action = vim.lsp.buf_request_sync(0, "codeAction/resolve", action, 60000)[id].result
end
vim.lsp.util.apply_workspace_edit(action.edit, client.offset_encoding)
wait(function() return #vim.diagnostic.get(0) == 0 end)
vim.cmd("write")
vim.fn.writefile({ vim.fn.json_encode({ found = out, action = action.title }) }, "seen.json")
client.stop()
vim.cmd("quitall!")
"""


SAVING = """
dofile("init.lua")
dofile("saving.lua")
vim.cmd("edit a.py")
local function wait(condition) assert(vim.wait(60000, condition, 50)) end
wait(function() return #vim.diagnostic.get(0) > 0 end)
vim.cmd("write")
local saved = { modified = vim.bo.modified, text = vim.fn.readfile("a.py") }
vim.cmd("edit b.py")
wait(function() return #vim.diagnostic.get(0) > 0 end)
saved.servers = #vim.lsp.get_active_clients()
vim.fn.writefile({ vim.fn.json_encode(saved) }, "seen.json")
for _, client in ipairs(vim.lsp.get_active_clients()) do client.stop() end
vim.cmd("quitall!")
"""


def run_neovim(folder: Path, script: str) -> Any:
    """What a script in Neovim saw, started in a folder with the page's snippets: `init.lua`, and `saving.lua`."""
    (folder / "a.py").write_text(DROPPED)
    (folder / "b.py").write_text(DROPPED)
    command = "{" + ", ".join(json.dumps(word) for word in (sys.executable, "-P", "-m", "devlint", "server")) + "}"
    snippets = re.findall(r"```lua[^\n]*\n(.*?)```", PAGE.read_text(), re.DOTALL)
    [starting] = [code for code in snippets if "FileType" in code]
    [saving] = [code for code in snippets if "BufWritePre" in code]
    assert '{ "devlint", "server" }' in starting
    (folder / "init.lua").write_text(starting.replace('{ "devlint", "server" }', command))
    (folder / "saving.lua").write_text(saving)
    (folder / "try.lua").write_text(script)
    run = ["nvim", "--clean", "--headless", "-c", "luafile try.lua"]
    done = subprocess.run(run, cwd=folder, capture_output=True, text=True, timeout=180, check=False)
    assert (folder / "seen.json").exists(), done.stderr
    return json.loads((folder / "seen.json").read_text())


def test_neovim_shows_findings_and_applies_a_fix(tmp_path: Path) -> None:
    folder = project(tmp_path / "work")
    seen = run_neovim(folder, SCRIPT)
    assert [(d["code"], d["line"]) for d in seen["found"]] == [("DEV101", 4)]
    assert "assign the result" in seen["action"]
    assert (folder / "a.py").read_text() == DROPPED.replace("x.to", "x = x.to")


def test_neovim_fixes_before_it_saves_and_starts_one_server(tmp_path: Path) -> None:
    seen = run_neovim(project(tmp_path / "work"), SAVING)
    assert seen == {"modified": False, "text": DROPPED.replace("x.to", "x = x.to").splitlines(), "servers": 1}

"""The server in Emacs itself, without a screen: the page's lines start it, its findings are there, and saving fixes them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from server.test_editing import DROPPED, project

pytestmark = [pytest.mark.slow, pytest.mark.skipif(shutil.which("emacs") is None, reason="Emacs isn't installed here")]

PAGE = Path(__file__).parent.parent.parent / "docs" / "editors.md"
# Flymake asks for findings once Emacs idles, which it never does here.
SCRIPT = """
(require 'json)
(package-initialize)
(unless (require 'eglot nil t) (kill-emacs 77))
(load-file "init.el")
(load-file "saving.el")
(defun wait-for (condition)
  (let ((end (+ (float-time) 60)))
    (while (and (not (funcall condition)) (< (float-time) end)) (accept-process-output nil 0.05))
    (unless (funcall condition) (error "waited in vain"))))
(find-file "a.py")
(run-hooks 'post-command-hook)
(wait-for #'eglot-current-server)
(flymake-start)
(wait-for #'flymake-diagnostics)
(let ((found (mapcar (lambda (d) (list (cons 'line (line-number-at-pos (flymake-diagnostic-beg d)))
                                       (cons 'text (flymake-diagnostic-text d))))
                     (flymake-diagnostics))))
  (goto-char (point-max))
  (insert "# the end\n")
  (save-buffer)
  (with-temp-file "seen.json" (insert (json-encode (list (cons 'found (vconcat found)))))))
"""


def test_emacs_shows_findings_and_fixes_them_as_it_saves(tmp_path: Path) -> None:
    folder = project(tmp_path / "work")
    (folder / "a.py").write_text(DROPPED)
    snippets = re.findall(r"```elisp[^\n]*\n(.*?)```", PAGE.read_text(), re.DOTALL)
    [starting] = [code for code in snippets if "eglot-ensure" in code]
    [saving] = [code for code in snippets if "before-save-hook" in code]
    assert '("devlint" "server")' in starting
    command = " ".join(json.dumps(word) for word in (sys.executable, "-P", "-m", "devlint", "server"))
    (folder / "init.el").write_text(starting.replace('"devlint" "server"', command))
    (folder / "saving.el").write_text(saving)
    (folder / "try.el").write_text(SCRIPT)
    run = ["emacs", "--batch", "-l", "try.el"]
    done = subprocess.run(run, cwd=folder, capture_output=True, text=True, timeout=180, check=False)
    if done.returncode == 77:
        pytest.skip("this Emacs has no Eglot")
    assert (folder / "seen.json").exists(), done.stderr
    [found] = json.loads((folder / "seen.json").read_text())["found"]
    assert found["line"] == 5
    assert "DEV101" in found["text"]
    assert (folder / "a.py").read_text() == DROPPED.replace("x.to", "x = x.to") + "# the end\n"

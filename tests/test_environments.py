"""Other people's code by the thousands of files: Python's library and what is installed beside it, linted with every rule."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig

import pytest

# Another environment's site-packages, where this one has no torch or transformers.
PACKAGES = os.environ.get("DEVLINT_TEST_PACKAGES") or sysconfig.get_path("purelib")


@pytest.mark.exhaustive
@pytest.mark.parametrize("folder", [sysconfig.get_path("stdlib"), PACKAGES], ids=["Lib", "site-packages"])
def test_every_rule_comes_to_its_end_everywhere(folder, tmp_path):
    """`benchmarks/many_files.py` tells, of the same, which file took longest and how much memory."""
    command = [sys.executable, "-P", "-m", "devlint", "check", folder, "--isolated", "--no-cache", "--select", "ALL"]
    done = subprocess.run(
        [*command, "--output-format", "json"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    # Files that are no Python on purpose are told, and nothing else has that code.
    assert done.returncode in (0, 1, 2)
    assert "Traceback" not in done.stderr
    unread = [f["message"] for f in json.loads(done.stdout) if f["code"] == "DEV000"]
    assert not [message for message in unread if "internal error" in message]

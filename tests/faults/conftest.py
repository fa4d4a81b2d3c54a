"""Each test in a folder of its own."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path

"""All tests: the whole suite uses all cores, and no test leaves results of the linter behind."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings

# How long an example takes is the machine's affair.
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")

# What is kept from run to run is for test_cache.py.
os.environ.setdefault("DEVLINT_NO_CACHE", "1")


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """A plain `pytest` runs on all cores, by pytest-xdist; one that names tests, or `-n`, or does without xdist, doesn't."""
    whole = config.args_source is pytest.Config.ArgsSource.TESTPATHS and not hasattr(config, "workerinput")
    alone = config.option.usepdb or config.option.collectonly
    if whole and not alone and getattr(config.option, "numprocesses", 0) is None:
        config.option.numprocesses = "auto"
        # Some tests take a minute: whoever is done takes over what waits behind one.
        config.option.dist = "worksteal"


BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A real browser."""
    api = pytest.importorskip("playwright.sync_api")
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    with api.sync_playwright() as playwright:
        try:
            chromium = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        except api.Error as error:
            if "Executable doesn't exist" not in str(error):
                # One that is there and doesn't start is no reason to leave tests out.
                raise
            pytest.skip(f"no browser: {error}")
        yield chromium
        chromium.close()

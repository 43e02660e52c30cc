"""A browser for all tests in this directory, which are marked ``browser``. Screenshots go to ``$SCREENSHOTS`` if it
names a directory."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.browser.chromium import Page

MISSING = (
    'the browser extra is not installed: pip install -e ".[browser]"'
    if find_spec("selenium") is None or find_spec("axe_core_python") is None
    else "no chromium and chromedriver here: apt-get install chromium-driver"
    if shutil.which("chromium") is None or shutil.which("chromedriver") is None
    else ""
)
HERE = Path(__file__).parent
collect_ignore_glob = ["test_*.py"] if MISSING.startswith("the browser extra") else []


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.browser)
            item.add_marker(pytest.mark.timeout(900))
            item.add_marker(pytest.mark.skipif(bool(MISSING), reason=MISSING))


@pytest.fixture(scope="session", name="page")
def opened_page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    from tests.browser.chromium import browsing

    with browsing(tmp_path_factory.mktemp("profile")) as page:
        yield page


@pytest.fixture(autouse=True)
def _look_and_forget(page: Page, request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if directory := os.environ.get("SCREENSHOTS"):
        page.screenshot(Path(directory) / f"{request.node.name.replace('/', '_')}.png")
    page.forget()

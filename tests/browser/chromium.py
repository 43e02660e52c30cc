"""Debian's headless Chromium, driven by selenium, for tests of web pages."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.chrome.service import Service

from tests.waiting import wait_for

BROWSER, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
AXE = resources.files("axe_core_python").joinpath("axe.min.js").read_text(encoding="utf-8")
WAIT_S = 90.0
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--window-size=1500,1000",
)


class Page:
    """A browser's only window."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self._driver = driver

    def open(self, url: str) -> None:
        """Open an address. Use :meth:`wait` to wait for what the page loads afterwards."""
        self._driver.get("about:blank")  # Ensures a reload even if only the fragment changes.
        self._driver.get(url)

    def wait(self, *texts: str, without: tuple[str, ...] = ()) -> str:
        """Wait until the page shows all of ``texts`` and none of ``without``. Return its whole text."""
        until = time.monotonic() + WAIT_S
        while True:
            shown = str(self._driver.execute_script("return document.body ? document.body.innerText : ''"))
            missing = [text for text in texts if text not in shown]
            if not missing and not any(text in shown for text in without):
                return shown
            assert time.monotonic() < until, f"waited {WAIT_S:g} s for {missing} in:\n{shown}"
            time.sleep(0.2)

    def wait_for(self, script: str) -> None:
        """Wait until a JavaScript expression is true."""
        wait_for(lambda: self.run(f"return Boolean({script})"), WAIT_S, lambda: script)

    def click(self, element: str) -> None:
        """Click on the element that a JavaScript expression returns, once it exists."""
        self.wait_for(element)
        self._driver.execute_script(f"({element}).click()")

    def run(self, script: str) -> object:
        """Return the result of a script."""
        return self._driver.execute_script(script)

    def resize(self, width: int, height: int) -> None:
        """Lay out the next opened pages for a screen of this size in pixels, which can be narrower than a window."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self._driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)

    def print_media(self) -> None:
        """Lay out the page for a printer."""
        self._driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})

    def prefer(self, scheme: str) -> None:
        """Prefer the color scheme ``light`` or ``dark``."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self._driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": features})

    def accessibility(self) -> list[str]:
        """Return violations of WCAG 2.1 AA found by axe: a line per rule, with the first violating element."""
        self._driver.execute_script(AXE)
        violations = self._driver.execute_async_script(
            "const done = arguments[0]; axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa']})"
            ".then(found => done(found.violations.map(each => `${each.id}: ${each.nodes[0].html} ${each.nodes[0]"
            ".failureSummary}`)))"
        )
        return [str(violation) for violation in violations]

    @contextmanager
    def without_script(self) -> Iterator[None]:
        """Disable scripts of pages that are opened in a block."""
        self._driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
        try:
            yield
        finally:
            self._driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})

    def forget(self) -> None:
        """Clear what the page stores in the browser, such as open rows and chosen columns, and the emulated screen."""
        self._driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        self._driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
        self._driver.execute_script("localStorage.clear(); sessionStorage.clear()")

    def screenshot(self, path: Path) -> None:
        """Save the window's contents as PNG."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self._driver.save_screenshot(str(path))


@contextmanager
def browsing(profile: Path) -> Iterator[Page]:
    """Run a browser with a fresh profile in this directory."""
    options = webdriver.ChromeOptions()
    options.binary_location = str(BROWSER)
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    driver = webdriver.Chrome(options=options, service=Service(executable_path=DRIVER))
    driver.set_page_load_timeout(WAIT_S)
    try:
        yield Page(driver)
    finally:
        driver.quit()

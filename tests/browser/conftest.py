"""One headless Chromium for all tests of this folder."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest

FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-default-apps"),
)


class Browser:
    """A page in Chromium, with what it said and what it asked for."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver
        self.look(1200)

    def look(self, width: int, scheme: str = "light") -> None:
        """The next pages are seen on a screen of this width, by a user who wants light or dark."""
        metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        wanted = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", wanted)

    def open(self, path: Path) -> None:
        """Open a file and wait until it is quiet."""
        self.driver.get("about:blank")
        self.said(), self.asked()
        self.driver.get(path.as_uri())
        self.settle()

    def settle(self) -> None:
        """Wait for two frames and a moment: plotly draws and fits in callbacks."""
        wait = (
            "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 150)))"
        )
        self.driver.execute_async_script(wait)

    def run(self, script: str, *arguments: object) -> Any:
        """The value of a piece of JavaScript."""
        return self.driver.execute_script(script, *arguments)

    def said(self) -> list[str]:
        """Messages on the console since the last call."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def asked(self) -> set[str]:
        """Addresses asked for since the last call, pictures inside the page left out."""
        events = (json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance"))
        urls = {
            str(event["params"].get("request", event["params"]).get("url", ""))
            for event in events
            if event["method"] in ("Network.requestWillBeSent", "Network.webSocketCreated")
        }
        return {url for url in urls if not url.startswith("data:")}

    def texts(self, selector: str) -> list[str]:
        """The text of each element."""
        return list(self.run("return [...document.querySelectorAll(arguments[0])].map(e => e.textContent)", selector))

    def count(self, selector: str) -> int:
        """How many elements there are."""
        return int(self.run("return document.querySelectorAll(arguments[0]).length", selector))


@pytest.fixture(scope="session")
def chromium(skip: Callable[[str, str], NoReturn]) -> Iterator[Browser]:
    """A browser; without one the tests are skipped."""
    try:
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service
    except ImportError:
        skip("browser", "selenium is not installed")
    try:
        import plotly  # noqa: F401
    except ImportError:
        skip("browser", "plotly is not installed")
    binary = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    chromedriver = shutil.which("chromedriver")
    if binary is None or chromedriver is None:
        skip("browser", f"there is no {'chromium' if binary is None else 'chromedriver'} on PATH")
    with tempfile.TemporaryDirectory(prefix="dmmc-chromium-", ignore_cleanup_errors=True) as profile:
        options = webdriver.ChromeOptions()
        options.binary_location = binary
        for flag in (*FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        options.set_capability("unhandledPromptBehavior", "ignore")
        driver = webdriver.Chrome(options=options, service=Service(chromedriver))
        try:
            driver.set_page_load_timeout(60)
            driver.set_script_timeout(30)
            yield Browser(driver)
        finally:
            driver.quit()


@pytest.fixture
def browser(chromium: Browser) -> Browser:
    """The browser, on a wide light screen."""
    chromium.look(1200)
    return chromium

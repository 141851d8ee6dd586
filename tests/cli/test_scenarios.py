"""``dlbricks serve`` on a real backend."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace

import onnx
import pytest
from dlbricks_serving.contention import passes
from dlbricks_serving.serving import composed

from dlbricks_core.machine.load import MachineLoad
from dlbricks_core.machine.system import physical_cores_available

pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.usefixtures("kept_workers")

BACKEND = ("--backend", "onnxruntime", "--store", "s.sqlite")


#: Good figures need more time.
SHORT = ("--duration", "0.3s")


@pytest.fixture(scope="module")
def offline(in_folder, chain, tmp_path_factory):
    """Folder of a small model that was put under load, with its store, and what was told."""
    folder = tmp_path_factory.mktemp("offline")
    onnx.save(chain("Relu", "Sigmoid", size=64, name="a"), folder / "a.onnx")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(passes, "_SHORTEST_S", 0.1)
        done = in_folder(
            folder,
            "serve",
            "--measure",
            folder / "a.onnx",
            *BACKEND,
            "--scenario",
            "offline",
            "--end-to-end",
            *SHORT,
            "--json",
            "o.json",
            "--html",
            "o.html",
        )
    assert done.status == 0, done.err
    return folder, done.out


@pytest.fixture
def under_load(dlbricks, offline, tmp_path, monkeypatch):
    """Puts the small model under load; the store has what was measured of it before."""
    monkeypatch.setattr(passes, "_SHORTEST_S", 0.1)
    shutil.copy(offline[0] / "s.sqlite", tmp_path)

    def run(scenario, *more):
        short = SHORT if "--end-to-end" in more else ()
        path = offline[0] / "a.onnx"
        return dlbricks("serve", "--measure", path, *BACKEND, "--scenario", scenario, *more, *short)

    return run


def test_bricks_and_the_whole_model_answer_and_the_best_is_named(offline, read):
    folder, out = offline
    assert max(map(len, out.splitlines())) <= 80
    data = read(folder / "o.json")
    (model,) = data["scenarios"]
    cores = physical_cores_available()
    expected = {(n, m) for n in range(1, cores + 1) for m in range(1, cores + 1) if n * m <= cores}
    placements = {(each["instances"], each["threads"]): each for each in model["placements"]}
    if cores <= 4:
        assert set(placements) == expected
    best = placements[model["best"]["instances"], model["best"]["threads"]]
    most = max(each["measured"]["throughput"] for each in model["placements"])
    assert best["measured"]["throughput"] == most
    named = "{instances} x {threads}".format(**model["best"])
    assert f"a: {named} serves most" in out
    for each in model["placements"]:
        taken = each["measured"]
        assert len(taken["latencies_ms"]) == taken["queries"] > 10
        assert taken["p50_ms"] <= taken["p90_ms"] <= taken["p99_ms"]
        assert taken["overhead"]["median_us"] > 0
        error = each["composed"]["throughput"] / taken["throughput"] - 1
        assert each["throughput_error"] == pytest.approx(error)
    assert "serves most" in (folder / "o.html").read_text("utf-8")


def test_models_are_told_apart_and_one_bad_model_and_disturbances_are_told_once(
    under_load, save, read, monkeypatch
):
    load = MachineLoad(1.0, 2, others=1.4, steal=0.0, throttled=0.0)
    monkeypatch.setattr(composed, "LoadSampler", lambda: SimpleNamespace(load=lambda: load))
    done = under_load("offline", save("b", "Tanh", "Relu"), "absent.onnx", "--threads", "1",
                      "--instances", "1", "--json", "o.json", "--html", "o.html",
                      "--force")  # fmt: skip
    assert done.status == 3, done.err
    data = read("o.json")
    assert [each["where"] for each in data["failures"]] == ["absent.onnx"]
    assert [each["name"] for each in data["scenarios"]] == ["a", "b"]
    assert "\\n" not in done.out
    assert {"a", "b"} <= set(done.out.splitlines())
    told = "other processes used 1.4 of 2 CPUs"
    assert (done.out + done.err).count(told) == 1
    assert f"1 x 1: {told}" in [each["text"] for each in data["warnings"]]
    assert told in Path("o.html").read_text("utf-8")


def test_what_was_measured_is_not_measured_again_unless_forced(under_load, offline, read):
    found = [read(offline[0] / "o.json")]
    for more in (), ("--threads", "1", "--instances", "1", "--force"):
        done = under_load("offline", "--end-to-end", "--json", "o.json", *more)
        assert done.status == 0, done.out + done.err
        found.append(read("o.json"))
    first, second, forced = (each["scenarios"][0]["placements"] for each in found)
    stored = [{each["measured"]["stored"] for each in rows} for rows in (first, second, forced)]
    assert stored == [{False}, {True}, {False}]
    for one, other in zip(first, second, strict=True):
        for figure in ("latencies_ms", "throughput"):
            assert one["measured"][figure] == other["measured"][figure]
    alone = {(each["instances"], each["threads"]): each["measured"] for each in first}[1, 1]
    assert alone["latencies_ms"] != forced[0]["measured"]["latencies_ms"]


def test_a_server_finds_a_rate_that_keeps_the_bound(under_load, read):
    done = under_load("server", "--max-latency", "1s", "--threads", "1", "--instances", "1",
                      "--end-to-end", "--json", "o.json")  # fmt: skip
    assert done.status == 0, done.out + done.err
    (row,) = read("o.json")["scenarios"][0]["placements"]
    taken = row["measured"]
    assert taken["holds"]
    assert taken["p99_ms"] <= 1000
    held = [each["qps"] for each in taken["trials"] if each["holds"]]
    assert taken["throughput"] == max(held)
    assert row["composed"]["holds"]


def test_a_bound_that_nothing_keeps_is_told(under_load, read):
    done = under_load("multi-stream", "--max-latency", "0.1us", "--threads", "1",
                      "--instances", "1", "--json", "o.json")  # fmt: skip
    assert done.status == 3, done.err
    assert "no n x m keeps 0.0001 ms; the least 99th percentile is" in done.out
    (model,) = read("o.json")["scenarios"]
    assert model["best"] is None
    assert {each["composed"]["holds"] for each in model["placements"]} == {False}


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        (("--scenario", "server"), "needs a bound"),
        (("--scenario", "offline", "--instances", "4096"), "more than"),
        (("--scenario", "offline", "--instances", "a"), "not a list of numbers"),
        (("--scenario", "offline", "--max-latency", "soon"), "is not a latency"),
        (("--scenario", "offline", "--max-latency", "0ms"), "'0ms' is not a latency"),
        (("--scenario", "offline", "--max-latency", "-5ms"), "'-5ms' is not a latency"),
        (("--scenario", "offline", "--max-latency", "1e999"), "'1e999' is not a latency"),
        (("--scenario", "offline", "--duration", "0s"), "'0s' is not a duration"),
        (("--scenario", "offline", "--duration", "5s"), "--duration needs --end-to-end"),
        (("--scenario", "offline", "--quantity", "load-time"), "No such option"),
        (("--scenario", "offline", "--system", "zen5"), "--system is for estimates"),
        *(
            (("--scenario", "offline", option, value), f"No such option '{option}'")
            for option, value in [("--runs", "3"), ("--precision", "1%"), ("--budget", "9s")]
        ),
        (("--scenario", "offline", "--retry-failed"), "No such option '--retry-failed'"),
        (("--instances", "1"), "Missing option '--scenario'"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(dlbricks, save, more, reason):
    refused = dlbricks("serve", "--measure", save("a", "Relu"), "--backend", "onnxruntime", *more)
    assert refused.status == 2
    assert reason in refused.err
    assert "Traceback" not in refused.err


def test_a_scenario_needs_a_model(dlbricks):
    refused = dlbricks("serve", "--measure", "--backend", "onnxruntime", "--scenario", "offline")
    assert refused.status == 2
    assert "Name at least one MODEL" in refused.err


def test_frameworks_are_compared_under_the_same_load(dlbricks, save, read, twin, monkeypatch):
    monkeypatch.setattr(passes, "_SHORTEST_S", 0.1)
    small, large = save("a", "Relu", "Sigmoid", size=64), save("b", "Tanh", "Relu", size=64)
    done = dlbricks(
        "serve",
        "compare",
        small,
        large,
        "absent.onnx",
        "--backends",
        "onnxruntime,twin",
        "--scenario",
        "offline",
        "--threads",
        "1",
        "--instances",
        "1",
        "--store",
        "s.sqlite",
        "--json",
        "o.json",
        "--html",
        "o.html",
    )
    assert done.status == 3, done.err
    assert max(map(len, done.out.splitlines())) <= 80
    data = read("o.json")
    assert [each["where"] for each in data["failures"]] == ["absent.onnx"]
    assert [each["name"] for each in data["scenarios"]] == ["a", "b"]
    said = " ".join(done.out.split())
    for number, model in enumerate(data["scenarios"]):
        most = {}
        for name, found in data["backends"].items():
            placed = found["scenarios"][number]["placements"]
            assert {(each["instances"], each["threads"]) for each in placed} >= {(1, 1)}
            most[name] = max(each["composed"]["throughput"] for each in placed)
        first, second = (each["backend"] for each in model["ranking"])
        assert most[first] >= most[second]
        told = f"{model['name']}: {first} with {{instances}} x {{threads}} serves most"
        assert told.format(**model["ranking"][0]) in said
        assert f"{most[first] / most[second]:.2f} times as many as {second} with" in said
        assert told.format(**model["ranking"][0]) in Path("o.html").read_text("utf-8")


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        (("--instances", "1"), "Missing option '--scenario'"),
        (("--scenario", "server"), "needs a bound"),
        (("--scenario", "offline", "--quantity", "load-time"), "No such option"),
    ],
)
def test_what_cannot_be_compared_is_refused_in_one_line(dlbricks, save, twin, more, reason):
    refused = dlbricks(
        "serve", "compare", save("a", "Relu"), "--backends", "onnxruntime,twin", *more
    )
    assert refused.status == 2
    assert reason in refused.err
    assert "Traceback" not in refused.err


def test_an_estimate_tells_loads_without_running_anything(dlbricks, offline, read, tmp_path):
    shutil.copy(offline[0] / "s.sqlite", tmp_path)
    asked = ("serve", offline[0] / "a.onnx", "--backend", "onnxruntime", "--scenario", "offline",
             "--store", "s.sqlite", "--json", "e.json")  # fmt: skip
    done = dlbricks(*asked, "--html", "e.html")
    assert done.status == 0, done.err
    timed, known = (
        {(each["instances"], each["threads"]): each for each in data["scenarios"][0]["placements"]}
        for data in (read(offline[0] / "o.json"), read("e.json"))
    )
    assert known.keys() == timed.keys()
    for place, each in known.items():
        assert each["composed"]["throughput"] == timed[place]["composed"]["throughput"]
        assert each["predicted"] is False
        assert each["measured"]["stored"]
    done = dlbricks(*asked[:-2], "--system", "zen5", "--json", "z.json")
    assert done.status == 0, done.err
    assert "(predicted)" in done.out
    assert max(map(len, done.out.splitlines())) <= 80
    elsewhere = read("z.json")
    assert all(each["predicted"] for each in elsewhere["scenarios"][0]["placements"])
    assert any("no disturbance" in each["text"] for each in elsewhere["notes"])


def test_what_an_estimate_of_loads_cannot_do_is_refused_before_models_are_read(dlbricks):
    asked = ("serve", "absent.onnx", "--backend", "onnxruntime", "--store", "s.sqlite")
    for more, words in (
        (("--scenario", "server"), "needs a bound"),
        (("--scenario", "offline", "--threads", "4096"), "more than the"),
        (("--scenario", "offline", "--duration", "3s"), "--duration needs --measure"),
        (("--scenario", "offline", "--force"), "--force needs --measure"),
    ):
        done = dlbricks(*asked, *more)
        assert done.status == 2, done.err
        assert words in done.err
        assert not Path("s.sqlite").exists()

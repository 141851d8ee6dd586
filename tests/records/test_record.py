"""Records of runs: what they hold, what they are read from, and what is no record."""

import json
import math
from dataclasses import fields, replace

import pytest
from dlbricks_records.comparison import Change, RecordedDifference, of_system
from dlbricks_records.json_records import described
from dlbricks_records.record import Record, read_record
from dlbricks_records.repetition import PreparedRepetition, _calibrated
from hypothesis import given
from hypothesis import strategies as st

from dlbricks_core.commands.estimate.data import run_data
from dlbricks_core.commands.options.invocation import Invocation, ModelFacts
from dlbricks_core.compose.options import CutOptions
from dlbricks_core.errors import DLBricksError
from dlbricks_core.estimation.without_runs import estimate
from dlbricks_core.facts import Cache, System
from dlbricks_core.importers import FileNotes, LoadOptions
from dlbricks_core.report.data import environment_of
from dlbricks_core.store import ResultStore

READ = LoadOptions(2, {"seq": 8}, {"data": (1, 3)}, {"rate": 0.5}, outputs=("y",))


@pytest.fixture
def results(asked, residual, tmp_path):
    """What an estimate of a model writes as JSON."""
    with ResultStore.open(tmp_path / "results.sqlite") as store:
        found = estimate([residual()], CutOptions(), asked, store)
    facts = {"residual": ModelFacts("ab" * 32, 12, FileNotes("MIT", "somebody", "", "by hand"))}
    return run_data(found, READ, Invocation("estimate", False, False, facts))


@pytest.fixture
def written(tmp_path):
    """Writes JSON to a file and gives its path."""

    def write(data):
        path = tmp_path / "file.json"
        path.write_text(data if isinstance(data, str) else json.dumps(data))
        return path

    return write


def test_results_become_a_record_that_is_read_again(results, written):
    record = read_record(written(results))
    assert (record.command, record.cut.composer) == ("estimate", "sequential")
    (model,) = record.models
    assert (model.licence, model.author, model.task) == ("MIT", "somebody", None)
    assert model.structure == results["models"][0]["signature"]
    assert record.reading == READ
    assert record.figures[0].missing == len(results["models"][0]["missing"]) > 0
    again = read_record(written(record.to_dict()))
    assert again == record
    assert again.to_dict() == record.to_dict()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("[", "is not JSON"),
        ("[1]", "holds no results"),
        ("{}", "holds no results"),
        ({"spec_version": 3}, "a record of version 3; this DLBricks reads version 2"),
        ({"schema_version": 3}, "results of version 3; this DLBricks reads version 2"),
        ({"spec_version": 2}, "is damaged: 'task' is missing"),
        ({"schema_version": 2}, "does not say how its results were made"),
    ],
)
def test_what_is_no_record_is_an_error_in_one_line(written, data, message):
    with pytest.raises(DLBricksError, match=message) as error:
        read_record(written(data))
    assert "estimate, check or compare" in error.value.hint or "newer" in error.value.hint


@pytest.mark.parametrize(
    ("before", "command", "measures"),
    [
        ("run", "estimate", True),
        ("estimate", "estimate", False),
        ("evaluate", "check", True),
        ("compare", "compare", True),
    ],
)
def test_files_of_version_1_name_commands_in_other_words(
    results, written, before, command, measures
):
    of_results = {**results["invocation"], "command": before}
    del of_results["measures"]
    record = read_record(written({**results, "schema_version": 1, "invocation": of_results}))
    assert (record.command, record.measures) == (command, measures)
    data = {**record.to_dict(), "spec_version": 1, "command": before}
    del data["measures"]
    assert read_record(written(data)) == record


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["command"], "survey"),
        (["written_at"], "yesterday"),
        (["models"], []),
        (["models", 0, "name"], 3),
        (["protocol", "threads"], "many"),
        (["protocol", "threads"], True),
        (["results", 0, "interval"], [1]),
        (["results", 0, "interval"], [1, 10**400]),
        (["results", 0, "interval"], [2, 1]),
        (["results", 0, "interval"], [float("nan"), 1]),
        (["results", 0, "estimate"], float("nan")),
        (["protocol", "timeout_s"], 10**400),
        (["results", 0, "measured"], float("inf")),
        (["software", "backends", 0, "settings"], {"a": 1}),
        (["hardware", "facts"], None),
        (["composing", "calibration"], []),
        (["composing", "calibration"], {"values": 3}),
        (["composing", "split"], "anyhow"),
        (["composing", "granularity"], 0),
        (["task", "reading", "dims"], {"seq": "x"}),
    ],
)
def test_a_damaged_record_is_an_error_in_one_line(results, written, path, value):
    data = read_record(written(results)).to_dict()
    part = data
    for step in path[:-1]:
        part = part[step]
    part[path[-1]] = value
    with pytest.raises(DLBricksError, match="is damaged: "):
        read_record(written(data))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DLBricksError, match="No such file"):
        read_record(tmp_path / "absent.json")


def test_hardware_has_the_names_of_mlperf_and_what_is_unknown_is_empty():
    caches = (Cache(1, "data", 32 * 2**10, 1), Cache(3, "unified", 2**25, 8))
    one = System(cpu="A CPU", physical_cores=8, logical_cpus=16, numa_nodes=1, caches=caches,
                 memory=2**34, boost=False, max_mhz=(3000, 3500))  # fmt: skip
    told = described(one)
    assert told["host_processor_model_name"] == "A CPU"
    assert (told["host_processors_per_node"], told["host_processor_core_count"]) == ("1", "8")
    assert told["host_processor_frequency"] == "3500 MHz"
    assert told["host_memory_capacity"] == "16.0 GiB"
    assert "L1d 32 KiB" in told["host_processor_caches"]
    assert "boost: off" in told["hw_notes"]
    two = described(replace(one, numa_nodes=2))
    assert two["host_processors_per_node"] == two["host_processor_core_count"] == ""
    nothing = described(System())
    assert {name for name, text in nothing.items() if text} == {"number_of_nodes"}


def test_each_fact_that_differs_is_named(asked):
    system = replace(asked.system, cpu="a CPU", memory=5, caches=())
    other = replace(system, cpu="another", memory=6, isa=("avx",), boost=True)
    found = list(of_system(system, other))
    assert RecordedDifference("system, cpu", "a CPU", "another") in found
    names = {each.what.removeprefix("system, ") for each in found}
    assert names == {"cpu", "isa", "boost"} - {
        each.name for each in fields(System)
        if getattr(system, each.name) == getattr(other, each.name)
    }  # fmt: skip


def test_only_variables_that_matter_here_are_recorded(asked, monkeypatch):
    monkeypatch.setenv("OMP_PROC_BIND", "true")
    monkeypatch.setenv("OTHER_SECRET", "x")
    found = environment_of(asked)
    assert found["OMP_PROC_BIND"] == "true"
    assert "OTHER_SECRET" not in found
    other = replace(asked.system, cpu="another")
    assert environment_of(asked.on(other)) == {}


FIGURES = st.floats(1e-3, 1e3)
SPREADS = st.floats(1.0, 3.0)


@given(FIGURES, SPREADS, FIGURES, SPREADS)
def test_the_interval_of_a_change_holds_the_ratio_and_turns_around(then, before, now, after):
    old, new = (then / before, then * before), (now / after, now * after)
    change = Change.of(then, old, now, new)
    assert change.low <= change.value <= change.high
    assert change.value == pytest.approx(now / then)
    # Intervals of logarithms add up in squares.
    half = math.hypot(math.log(before), math.log(after))
    assert math.log(change.high / change.value) == pytest.approx(half, abs=1e-9)
    back = Change.of(now, new, then, old)
    assert (1 / back.high, 1 / back.low) == pytest.approx((change.low, change.high))


@pytest.mark.parametrize("arguments", [
    (None, (1, 2), 1.0, (1, 2)), (1.0, None, 1.0, (1, 2)), (0.0, (0, 1), 1.0, (1, 2)),
])  # fmt: skip
def test_without_two_figures_there_is_no_change(arguments):
    assert Change.of(*arguments) is None


def test_a_record_of_one_backend_holds_no_second_one(results, written):
    data = read_record(written(results)).to_dict()
    data["software"]["backends"] *= 2
    with pytest.raises(DLBricksError, match="is damaged: estimate has 2 backends"):
        read_record(written(data))


def test_fitted_numbers_travel_with_a_record(results, asked, tmp_path):
    fitted = {"values": {"composing_error": 0.02}, "models": [], "bricks": 1, "version": "0.1.0",
              "taken_at": "2026-01-01T00:00:00+00:00"}  # fmt: skip
    record = Record.of_result({**results, "calibration": fitted})
    again = PreparedRepetition(record, [], [asked], [], [])
    with ResultStore.open(tmp_path / "new.sqlite") as store:
        other = replace(asked.system, cpu="another")
        _calibrated(again, asked.on(other), store)
        assert store.calibration(asked.on(other).calibration_key(again.cut_options)) is None
        _calibrated(again, asked, store)
        kept = store.calibration(asked.calibration_key(again.cut_options))
        assert kept.to_dict() == fitted


def test_figures_agree_if_the_interval_holds_one():
    assert Change(0.9, 0.8, 1.05).agrees
    assert not Change(0.9, 0.8, 0.99).agrees


def test_a_record_of_another_command_is_none(results):
    with pytest.raises(ValueError, match="command is"):
        replace(Record.of_result(results), command="bench")

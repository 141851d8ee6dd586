"""Two finished results side by side."""

import json
import math

import pytest
from dlbricks_records.comparison import Change, ChangedFigure, ThenAndNow
from dlbricks_records.json_records import RecordedFigures
from hypothesis import given
from hypothesis import strategies as st

from dlbricks_core.commands.estimate.data import run_data
from dlbricks_core.commands.options.invocation import Invocation, ModelFacts
from dlbricks_core.compose.options import CutOptions
from dlbricks_core.estimation.without_runs import estimate
from dlbricks_core.importers import LoadOptions
from dlbricks_core.store import ResultStore


def figure(model="m", value=10.0, half=0.01, backend="made", measured=None):
    """Figures of a model, with intervals of a relative half-width."""

    def ends(each):
        return None if each is None else [each / (1 + half), each * (1 + half)]

    return {
        "model": model, "backend": backend, "missing": 0,
        "estimate": value, "interval": ends(value),
        "measured": measured, "measured_interval": ends(measured),
    }  # fmt: skip


@pytest.fixture
def compared(asked, residual, tmp_path, dlbricks):
    """Compares results with given figures, by command."""
    with ResultStore.open(tmp_path / "results.sqlite") as store:
        found = estimate([residual()], CutOptions(), asked, store)
    data = run_data(
        found, LoadOptions(), Invocation("estimate", False, False, {"residual": ModelFacts()})
    )
    (tmp_path / "run.json").write_text(json.dumps(data))
    assert dlbricks("results", "record", "run.json", "--json", "record.json").status == 0
    record = json.loads((tmp_path / "record.json").read_text())

    def compare(before, after, *arguments, **changes):
        for name, figures, more in (("a", before, {}), ("b", after, changes)):
            text = json.dumps({**record, **more, "results": figures})
            (tmp_path / f"{name}.json").write_text(text)
        return dlbricks("results", "compare", "a.json", "b.json", *arguments)

    compare.record = record
    return compare


@pytest.mark.parametrize(
    ("before", "after", "status", "words"),
    [
        (figure(), figure(value=10.6), 1, "1 of 1 figure slower by more than 5%."),
        (figure(), figure(value=10.4), 0, "0 of 1 figure slower by more than 5%."),
        (figure(), figure(value=10.6, half=0.2), 0, "slower by more than 5%, 1 unclear."),
        (figure(half=2), figure(value=10.1), 0, "slower by more than 5%, 1 unclear."),
        (figure(half=0.03), figure(value=10.4), 0, "slower by more than 5%."),
        (figure(), figure(value=8.0), 0, "faster"),
        (figure(measured=10.0), figure(measured=12.0), 1, "measured"),
        (figure(measured=10.0), figure(value=12.0), 1, "estimate"),
        (figure(), figure("n"), 3, "m on made: it is not in the newer result"),
        (figure(), {**figure(), "missing": 1}, 3, "no figure of one kind"),
    ],
)
def test_the_status_says_whether_a_model_became_slower(compared, before, after, status, words):
    done = compared([before], [after])
    assert done.status == status
    shown = " ".join(done.out.split())
    assert words in shown
    assert ("Unclear: the 90%" in shown) is ("1 unclear" in words)


@pytest.mark.parametrize(("limit", "told"), [("5", "500% is not from 0%"), ("-5%", "-5% is not")])
def test_a_limit_is_a_share(compared, limit, told):
    done = compared([figure()], [figure(value=10.6)], "--limit", limit)
    assert done.status == 2
    assert told in " ".join(done.err.split())


def test_a_model_that_became_slower_goes_before_one_that_cannot_be_compared(compared):
    done = compared([figure("a"), figure("b")], [figure("b", 12.0)])
    assert done.status == 1
    assert "a on made: it is not in the newer result" in done.out


def test_the_limit_is_the_users(compared):
    assert compared([figure()], [figure(value=10.6)], "--limit", "10%").status == 0
    assert compared([figure()], [figure(value=10.3)], "--limit", "1%").status == 1


def test_models_of_one_name_are_compared_in_their_order(compared):
    done = compared(
        [figure(), figure(value=20.0)], [figure(value=20.0), figure(value=20.0)], "--json", "o.json"
    )
    assert done.status == 1


def test_differences_behind_the_figures_are_named(compared, tmp_path):
    software = {**compared.record["software"], "dlbricks": "9.9"}
    done = compared([figure()], [figure()], "--json", "o.json", software=software)
    assert done.status == 0
    assert "Differs: DLBricks: 0.1.0 then, 9.9 now" in done.out
    found = json.loads((tmp_path / "o.json").read_text())
    (model,) = found["models"]
    assert (model["ratio"], model["verdict"]) == (1.0, "within")
    assert [each["what"] for each in found["differences"]] == ["DLBricks"]


def test_quantities_are_not_mixed(compared):
    task = {**compared.record["task"], "quantity": "peak-memory", "unit": "MB"}
    done = compared([figure()], [figure()], task=task)
    assert done.status == 2
    assert "different quantities: latency in ms, peak-memory in MB" in done.err


def test_the_files_are_not_overwritten(compared):
    done = compared([figure()], [figure()], "--json", "a.json")
    assert done.status == 2
    assert "--json names the same file as the file a.json" in done.err


RATIOS = st.floats(0.1, 10)


@given(ratio=RATIOS, low=st.floats(0.1, 1), high=st.floats(1, 10), limit=st.floats(0, 1))
def test_directions_are_those_of_the_ratio_beyond_the_limit(ratio, low, high, limit):
    same = RecordedFigures("m", "b", 1.0, (1, 1), None, None, 0)
    change = Change(ratio, ratio * low, ratio * high)
    found = ChangedFigure(ThenAndNow(same, same), "estimate", change, limit).verdict
    beyond = abs(math.log(ratio)) > math.log(1 + limit) * (1 + 1e-9)
    if found == "within":
        assert not beyond
        assert not change.low <= 1 <= change.high or change.high <= 1 + limit
    if found == "unclear":
        assert change.low <= 1 <= change.high
    if found in {"more", "less"}:
        assert (ratio > 1) == (found == "more")
        assert not change.low <= 1 <= change.high


@pytest.mark.parametrize(("command", "action"), [("results", "compare"), ("machine", "check")])
def test_an_unknown_action_is_named_with_those_that_there_are(dlbricks, command, action):
    done = dlbricks(command, "lisst")
    assert done.status == 2
    assert "unknown action 'lisst'; there are " in done.err
    assert action in done.err
    assert dlbricks(command, "-h").status == 0

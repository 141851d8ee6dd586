"""The search for probes, on a system that is twice as slow as the one that is known."""

import io
from dataclasses import replace
from itertools import islice

import dlbricks_survey.characterization as module
import numpy as np
import pytest
from dlbricks_prediction import Contribution, Provenance
from dlbricks_prediction.atlas import LayerTable, counts_matrix
from dlbricks_prediction.baseline import Processor, expected_ms
from dlbricks_prediction.features import Features, joined
from dlbricks_prediction.survey import draw
from dlbricks_survey.calibration import print_probing
from dlbricks_survey.characterization import Characterization, characterize

from dlbricks_core.facts import Measurement, Observation, System
from dlbricks_core.measure.ledger import Ledger
from dlbricks_core.progress import Observer
from dlbricks_core.report.tables import Console
from dlbricks_core.store import ResultStore

KNOWN = 60
SLOWER = 2.0


def alone(brick):
    return joined([Features.of(brick.model), Features.of_ends(brick.model)])


def latency(brick, request):
    """Milliseconds on the known system: as the baseline expects, and half as much again."""
    processor = Processor.of(request.system, request.setup.threads)
    return 1.5 * float(expected_ms(alone(brick), processor).sum())


@pytest.fixture
def drawn():
    return [each.brick for each in islice(draw(), KNOWN)]


@pytest.fixture
def elsewhere(asked, drawn):
    """What a system with another processor measured; two families of models are in it."""
    table = LayerTable()
    rows = [table.add(alone(brick)) for brick in drawn]
    system = replace(asked.system, vendor="Other", cpu="Other 9000")
    assert isinstance(system, System)
    return Contribution(
        system,
        asked.setup,
        Provenance("1", "", "", (), ""),
        table.features,
        counts_matrix(rows, len(table.kinds)),
        np.log([latency(brick, asked) for brick in drawn]),
        np.full(KNOWN, 1e-4),
        np.zeros(KNOWN),
        tuple(brick.signature for brick in drawn),
        ("resnet", "bert", "resnet,bert") * (KNOWN // 3),
        pulls=np.zeros(0),
    )


@pytest.fixture
def runs():
    """Number of runs of each network, one for each measurement of the search."""
    return []


@pytest.fixture
def search(asked, elsewhere, runs, monkeypatch, tmp_path):
    """Runs a search in which networks take what the slower system would."""
    timed, broken = [], set()

    def measure(targets, request, store, observer, worker):
        targets = list(targets)
        timed.append([target.brick.signature for target in targets])
        runs.append(request.runs)
        keys = {request.key(t.brick.signature, "brick"): t for t in targets}
        failed = {key: "too slow" for key in keys if len(timed) == 1 and broken}
        found = {
            key: Measurement(
                key, observations=(Observation("s", 0, (SLOWER * latency(t.brick, request),) * 8),)
            )
            for key, t in keys.items()
            if key not in failed
        }
        return Ledger.of(found, request.protocol, failures=failed)

    def run(most, models=(), atlas=None, fails=False, least_gain=0.0, first=None):
        timed.clear()
        runs.clear()
        broken.update({"first"} if fails else ())
        monkeypatch.setattr(module, "measure", measure)
        monkeypatch.setattr(module, "LEAST_GAIN", least_gain)
        monkeypatch.setattr(
            module, "training_data", lambda *_: [elsewhere] if atlas is None else atlas
        )
        with ResultStore.open(tmp_path / "results.sqlite") as store:
            found = characterize(models, most, asked, store, Observer(), first or {})
            return found, timed

    return run


@pytest.mark.long
def test_a_few_probes_narrow_the_intervals_of_all_others(search):
    found, timed = search(10)
    assert len(found.probes) == 10
    assert [len(each) for each in timed] == [5, 5, 10]
    assert set(found.asked) == {"resnet", "bert"}
    assert (found.after < found.before / 2).all()
    assert found.elsewhere == ("Other 9000",)
    assert found.known == 0
    ratios = [each.measured.value / each.expected_ms for each in found.probes]
    assert np.median(ratios) > 1.2


@pytest.mark.long
def test_choosing_stays_quick_as_no_network_with_many_layers_is_asked(
    search, elsewhere, monkeypatch
):
    different = np.diff(elsewhere.counts.indptr)
    assert different.max() > 5
    monkeypatch.setattr(module, "_MOST_LAYERS", 5)
    asked = module._networks((), [elsewhere], search(1)[0].request, table := LayerTable())
    assert set(asked) == {"resnet", "bert"}
    assert all(len(layers) <= 5 for layers in asked.values())
    assert len(table.kinds) <= 10


@pytest.mark.long
def test_all_probes_run_longer_side_by_side_in_the_end(search, runs):
    """A machine is not equally fast in the seconds of each batch."""
    _, timed = search(7)
    assert {*timed[-1]} == {signature for batch in timed[:-1] for signature in batch}
    families = [module.surveyed(module._DRAWN)[signature].group for signature in timed[-1]]
    assert families == sorted(families)
    assert runs == [runs[0], runs[0], 64]
    assert runs[0] < 64


@pytest.mark.long
def test_fixed_networks_come_first_and_others_beside_them(search):
    every = module.surveyed(40)
    fixed = dict(list(every.items())[-4:])
    found, timed = search(5, first=fixed)
    assert [{*each} for each in timed[:1]] == [{*fixed}]
    assert [len(each) for each in timed] == [4, 5, 9]
    assert len(found.probes) == 9


def test_fixed_networks_alone_are_loaded_once_and_narrow_intervals(search, runs):
    fixed = dict(list(module.surveyed(8).items()))
    found, timed = search(0, first=fixed)
    assert [{*each} for each in timed] == [{*fixed}]
    assert runs == [24]
    assert np.median(found.after) < np.median(found.before)


@pytest.mark.long
def test_more_probes_tell_more(search):
    widths = [search(number)[0].after.mean() for number in (1, 5, 20)]
    assert widths == sorted(widths, reverse=True)


def test_it_ends_where_no_further_probe_helps_and_says_so(search):
    found, timed = search(40, least_gain=module.LEAST_GAIN)
    assert 0 < len(found.probes) < 40
    (said,) = [each for each in found.ledger.notes if each.code == "no-further-probe-helps"]
    assert said.values == {"probes": len(found.probes), "of_probes": 40}
    assert len(timed[-1]) == len(found.probes)
    console = Console(width=80, file=io.StringIO())
    print_probing(console, found)
    assert f"Note: {len(found.probes)} of 40 probes" in console.file.getvalue()
    assert search(10)[0].ledger.notes == ()


def test_those_that_fail_are_named_and_others_take_their_place(search):
    found, timed = search(6, fails=True)
    assert len(found.probes) == 6
    assert len(found.ledger.failures) == 5
    every = [signature for batch in timed[:-1] for signature in batch]
    assert len(every) == len(set(every)) == 11
    assert len(timed[-1]) == 6  # those that failed are not tried again


def test_what_was_measured_here_is_no_probe_again(search, elsewhere, asked):
    here = replace(elsewhere, system=asked.system)
    found, timed = search(5, atlas=[here])
    assert found.known == KNOWN
    assert set(here.signatures).isdisjoint(signature for batch in timed for signature in batch)


@pytest.mark.long
def test_named_models_are_what_probes_tell_about_and_their_bricks_are_probes(search, residual):
    model = residual()
    found, _ = search(3, [model])
    assert found.asked == (model.name,)
    assert len(found.probes) == 3


def test_without_any_knowledge_the_first_probes_tell_most(search):
    found, _ = search(5, atlas=[])
    assert found.elsewhere == ()
    assert found.after.mean() < 0.7 * found.before.mean()


def test_where_no_probe_is_left_the_report_says_why(asked):
    console = Console(width=80, file=io.StringIO())
    widths = np.array([0.1])
    print_probing(
        console, Characterization(asked, (), ("a",), widths, widths, 5, ("AMD",), Ledger())
    )
    assert "No further probe would narrow the predictions: 5 networks" in console.file.getvalue()

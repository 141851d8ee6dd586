"""The dial's probes on a real backend, and what precision a run reaches."""

from dataclasses import replace

import pytest
from dlbricks_prediction import shipped
from dlbricks_prediction.rates import surveyed
from dlbricks_prediction.training_data import contributions

from dlbricks_core.commands.options.approach import Approach, Wishes
from dlbricks_core.compose.options import LEARNED_COMPOSER, CutOptions
from dlbricks_core.estimation.adaptive.acquisition import Choice
from dlbricks_core.estimation.run import run_bricks
from dlbricks_core.figures.statistics import WIDENS
from dlbricks_core.machine.system import current_system
from dlbricks_core.measure.cutting import cut_models
from dlbricks_core.measure.request import Request
from dlbricks_core.progress import Observer
from dlbricks_core.store import ResultStore


@pytest.fixture
def elsewhere(monkeypatch):
    """ONNX Runtime on a system that the atlas lacks, and a small part of the atlas."""
    pytest.importorskip("onnxruntime")
    here = current_system()
    other = replace(here, cpu="Other 9000")
    away = [each for each in shipped("onnxruntime")
            if each.system.microarchitecture != here.microarchitecture]  # fmt: skip
    few = [each.only(range(60)) for each in away[:2]]

    def knowledge(predictor, store, backend):
        return [*contributions(store, backend), *few]

    monkeypatch.setattr("dlbricks_core.measure.request.current_system", lambda: other)
    monkeypatch.setattr("dlbricks_core.estimation.adaptive.brick_loop.training_data", knowledge)


@pytest.mark.process
@pytest.mark.parametrize("surveyed_only", [False, True])
def test_probes_tell_about_the_system_on_a_real_backend(
    elsewhere, monkeypatch, tmp_path, builder, surveyed_only
):
    def convolutions(side):
        b = builder((1, 64, side, side))
        x = b.conv(b.input)
        for kernel in (1, 3, 5) * 3:
            x = b.conv(b.relu(x), kernel)
        return b.model()

    def turned(side, asked, store):
        options = CutOptions.chosen(None, None, LEARNED_COMPOSER)
        cutting = cut_models([convolutions(side)], options, asked, Observer())
        return run_bricks(cutting, asked, store, Observer(), end_to_end=False, few=True)

    if surveyed_only:
        drawn = surveyed(60)

        def first(self, most, precision, left_s):
            return [s for s in self.signatures if s in drawn][:most]

        monkeypatch.setattr(Choice, "first", first)
    asked = Request.of("onnxruntime", threads=1, precision=0.1)
    with ResultStore.open(tmp_path / "r.sqlite") as store:
        found = turned(28, asked, store)
        (own,) = contributions(store, "onnxruntime")
        again = turned(14, asked, store)
    probed = found.adaptive.probed
    assert found.failures == []
    assert probed.networks > 0
    # On a busy machine they may contradict each other, and are left out then.
    flags = {flag for each in found.ledger.measurements.values()
             for taken in each.observations for flag in taken.flags}  # fmt: skip
    assert surveyed_only or probed.half_width != probed.half_width_before or WIDENS in flags
    drawn = [group for group in own.groups if group.startswith("survey:")]
    # Disturbed samples teach nothing.
    assert len(drawn) >= (probed.networks / 2 if surveyed_only else 0)
    assert len(own) >= probed.networks / 2
    # What was stored makes the system known.
    assert again.adaptive.probed is None


@pytest.mark.parametrize(
    ("precision", "budget_s", "found"),
    [(None, None, 0.1), (None, 10, 0.05), (0.2, None, 0.2), (0.01, 10, 0.01), (0.05, None, 0.05)],
)
def test_what_precision_a_run_reaches(precision, budget_s, found):
    approach = Approach.of_run(Wishes(precision=precision, budget_s=budget_s))
    assert approach.cut_options.composer == LEARNED_COMPOSER
    assert (approach.precision, approach.condition) == (found, "hot")


@pytest.mark.parametrize(
    "said",
    [{"runs": 2}, {"granularity": 1}, {"split": "chain"}, {"composer": "segmented"},
     {"protocol": "paper"}, {"quantity": "load_time"}],
    ids=str,
)  # fmt: skip
def test_who_says_how_to_cut_or_to_run_has_all_bricks_timed(said):
    approach = Approach.of_run(Wishes(**said))
    assert approach.cut_options.composer != LEARNED_COMPOSER
    assert (approach.precision, approach.condition) == (None, "cold")

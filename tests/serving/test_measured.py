"""Whole models under load."""

import numpy as np
from dlbricks_serving.load import LoadGenerator
from dlbricks_serving.scenarios import Scenario
from dlbricks_serving.serving.measured import Load, measured

from dlbricks_core.errors import DLBricksError
from dlbricks_core.progress import Observer
from dlbricks_core.store import ResultStore


def test_values_of_the_file_do_not_count_as_bricks_do_not_have_them(
    builder, asked, tmp_path, monkeypatch
):
    loaded = []

    def load(generator, model):
        loaded.append(model)
        raise DLBricksError("that is enough")

    looked_up = []
    monkeypatch.setattr(LoadGenerator, "load", load)
    monkeypatch.setattr(ResultStore, "get", lambda store, keys: looked_up.extend(keys) or {})
    b = builder()
    b.sum(b.input, b.weight(1, 4, 6, 6, value=np.full((1, 4, 6, 6), 0.02, np.float32)))
    model = b.model()
    with ResultStore.open(tmp_path / "results.sqlite") as store:
        load_of = Load(Scenario.OFFLINE, None, 0.1)
        (found,) = measured([model], asked, load_of, 1, store, Observer())
    assert found.reason == "that is enough"
    assert model.constants
    assert [each.constants for each in loaded] == [{}]
    # A load that ran with another protocol, and so with other samples, is not taken from the store.
    of_loads = f"{asked.setup.protocol};offline:instances=1,0.1s"
    assert {key.setup.protocol for key in looked_up} == {of_loads}

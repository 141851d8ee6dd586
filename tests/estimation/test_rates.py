"""Rates: the fixed networks, and what a store says of them."""

import pytest
from dlbricks_machine.rates import rates_of
from dlbricks_prediction import rates as module
from dlbricks_prediction import shipped
from dlbricks_prediction.rates import rated

from dlbricks_core.facts import Observation
from dlbricks_core.store import ResultStore


def test_each_network_is_named_once_and_takes_a_few_milliseconds():
    names = [name for name, _ in module.RATES.values()]
    assert len(rated()) == len(names) == len(set(names))
    it = next(e for e in shipped("onnxruntime") if e.setup.threads == 1)
    own = {s: float(ms) for s, ms in zip(it.signatures, it.log_ms, strict=True)}
    assert rated().keys() <= own.keys()
    assert all(own[signature] < 3 for signature in rated())  # 20 ms


def test_a_store_says_what_a_machine_does(asked, tmp_path):
    product, *_, call = rated()
    with ResultStore.open(tmp_path / "r.sqlite") as store:
        store.remember_system(asked.fingerprint, asked.system.to_dict())
        assert rates_of(store, asked.fingerprint) == {}
        for signature, ms in ((product, 2.0), (call, 0.01), ("0" * 24, 1.0)):
            samples = Observation("s", 0, (ms,) * 8)
            store.add_all([(asked.key(signature, "brick"), samples, ())])
        ((setup, found),) = rates_of(store, asked.fingerprint).items()
        assert rates_of(store, "other") == {}
    assert setup == asked.setup
    assert [each.name for each in found] == ["large product", "call of a small layer"]
    flops = 2 * 196 * 512 * 3072
    assert [each.value for each in found] == pytest.approx([flops / 2e6, 10.0])
    assert [each.unit for each in found] == ["GFLOP/s", "us"]

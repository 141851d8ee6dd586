"""The networks and plain scripts that benchmarks compare estimates with."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BENCHMARKS = ROOT / "benchmarks"


@pytest.fixture(scope="module")
def networks():
    pytest.importorskip("torch")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS))
        import networks

        yield networks


@pytest.fixture(scope="module")
def architectures(networks):
    from networks import public

    return public


def printed(script, *words):
    """What a script of the benchmarks prints, in the repository's root."""
    command = [sys.executable, str(BENCHMARKS / script), *words]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def test_the_table_has_networks_of_unlike_domains(networks):
    domains = Counter(each.domain for each in networks.NETWORKS.values())
    assert len(networks.NETWORKS) >= 61
    assert len(domains) >= 15


def test_each_network_is_found_by_its_name(networks):
    for name, each in networks.NETWORKS.items():
        module, _, function = each.spec.partition(":")
        assert function == name
        assert getattr(sys.modules[module], name) is each.factory


def test_architectures_have_unique_names_in_the_order_of_their_publication(architectures):
    entered = architectures.registry.entered
    months = [each.published for each in architectures.ARCHITECTURES.values()]
    assert len({each.name for each in entered}) == len(entered) >= 150
    assert months == sorted(months)
    assert all(2012 <= int(m[:4]) <= 2026 and 1 <= int(m[5:]) <= 12 for m in months)
    assert architectures.bert_tiny is architectures.ARCHITECTURES["bert_tiny"].factory


def test_a_factory_draws_the_same_weights_each_time(networks):
    import torch

    (first, inputs), (second, _) = (networks.recommendation.interest() for _ in range(2))
    with torch.inference_mode():
        assert torch.equal(first(*inputs), second(*inputs))


@pytest.mark.process
def test_a_network_is_exported_and_timed(networks, tmp_path):
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    printed("networks/export.py", str(tmp_path), "keyword_spotting")
    file = str(tmp_path / "keyword_spotting.onnx")
    told = json.loads(printed("plain/run_onnxruntime.py", file, "--runs", "2"))
    assert told["name"] == "keyword_spotting"
    assert told["median_ms"] > 0
    assert told["load_s"] > 0


@pytest.mark.process
def test_modules_are_timed_by_name(architectures):
    name = "torch:benchmarks.networks.public:bert_tiny"
    assert json.loads(printed("plain/run_pytorch.py", name, "--runs", "2"))["median_ms"] > 0

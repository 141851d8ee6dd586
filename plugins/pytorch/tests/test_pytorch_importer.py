"""Programs, modules and factories, into the IR."""

from __future__ import annotations

import json
import sys
from collections import Counter

import pytest
import torch
from dlbricks_pytorch.backend import PytorchBackend
from dlbricks_pytorch.export import OPSET, _known_operators, to_proto, trace
from dlbricks_pytorch.factories import TorchFactories
from dlbricks_pytorch.importer import PytorchImporter, from_exported, from_module
from dlbricks_pytorch.package import load_program
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.onnx._internal.exporter import _registration

from dlbricks_core.bricks import BrickSet
from dlbricks_core.cli import main
from dlbricks_core.errors import DLBricksError, ModelError
from dlbricks_core.importers import ImportOptions
from dlbricks_core.measure.rewrites import unfolded
from dlbricks_core.passes import normalize


class Network(nn.Module):
    def __init__(self, size=8):
        super().__init__()
        self.conv, self.bn = nn.Conv2d(3, size, 3), nn.BatchNorm2d(size)
        self.fc = nn.Linear(size, 5)

    def forward(self, image, scale=None):
        x = torch.relu(self.bn(self.conv(image))).mean((2, 3))
        return self.fc(x if scale is None else x * scale)


IMAGE = torch.randn(1, 3, 8, 8)
OPERATORS = ["Conv", "BatchNormalization", "Relu", "ReduceMean", "Gemm"]


def operators(model):
    return [layer.op for layer in normalize(model).layers]


def test_module_is_left_as_it_was():
    module = Network()
    module.bn.eval()
    assert operators(from_module(module, (IMAGE,))) == OPERATORS
    assert module.training
    assert not module.bn.training


def test_translations_of_torch_onnx_are_read_once_and_stay_as_they_are(monkeypatch):
    from_module(Network(), (IMAGE,))
    source = _registration.onnxscript_apis
    monkeypatch.setattr(source, "get_torchlib_ops", lambda: pytest.fail("they are read again"))
    before = _registration.ONNXRegistry.from_torchlib
    assert operators(from_module(Network(), (IMAGE,))) == OPERATORS
    assert _registration.ONNXRegistry.from_torchlib == before
    with _known_operators():
        known = _registration.ONNXRegistry.from_torchlib(opset_version=OPSET)
    own = [name for name, each in known.functions.items() if any(one.is_custom for one in each)]
    assert own == []


def test_module_with_keyword_arguments_and_a_name():
    model = from_module(Network(), (IMAGE,), {"scale": torch.tensor(2.0)}, name="scaled")
    assert model.name == "scaled"
    assert model.inputs == ("image", "scale")
    assert "Mul" in operators(model)


def test_dynamic_dimensions_stay_and_can_be_bound():
    shapes = {"image": {0: torch.export.Dim.DYNAMIC, 2: torch.export.Dim.DYNAMIC}}
    model = from_module(Network(), (torch.randn(2, 3, 8, 8),), dynamic_shapes=shapes)
    shape = model.tensors["image"].shape
    assert not isinstance(shape[0], int)
    assert not isinstance(shape[2], int)
    bound = normalize(model, batch=4, dims={"image.2": 16})
    assert bound.tensors["image"].shape == (4, 3, 16, 8)
    assert bound.tensors[bound.outputs[0]].shape == (4, 5)


def test_program_file_comes_back_as_the_module(tmp_path):
    program = torch.export.export(Network().eval(), (IMAGE,))
    torch.export.save(program, tmp_path / "net.pt2")
    assert PytorchImporter().handles("some/net.pt2")
    model = PytorchImporter().load(tmp_path / "net.pt2")
    assert model.name == "net"
    assert operators(model) == OPERATORS
    signatures = [
        BrickSet.of([normalize(each)]).bricks.keys()
        for each in (model, from_exported(program), from_module(Network(), (IMAGE,)))
    ]
    assert signatures[0] == signatures[1] == signatures[2]


def test_weights_are_named_but_not_copied():
    program = trace(nn.Linear(1000, 1000), (torch.randn(1, 1000),), {})
    proto = to_proto(program)
    assert proto.ByteSize() < 20_000
    model = from_exported(program)
    assert ("float32", (1000, 1000)) in {
        (spec.dtype, spec.shape) for spec in map(model.tensors.get, model.weights)
    }


def save(module, path, *inputs):
    torch.export.save(torch.export.export(module.eval(), inputs), path)
    return path


def test_large_weights_of_a_file_are_not_read(tmp_path):
    module = nn.Sequential(nn.Linear(64, 4000), nn.BatchNorm1d(4000), nn.Linear(4000, 2))
    path = save(module, tmp_path / "large.pt2", torch.randn(3, 64))
    weights = load_program(path).state_dict
    assert isinstance(weights["0.weight"], FakeTensor)
    assert torch.equal(weights["0.bias"], module[0].bias)
    model = normalize(PytorchImporter().load(path))
    direct = normalize(from_module(module, (torch.randn(3, 64),)))
    assert operators(model) == ["Gemm", "BatchNormalization", "Gemm"]
    assert BrickSet.of([model]).bricks.keys() == BrickSet.of([direct]).bricks.keys()


class Shared(nn.Module):
    def __init__(self):
        super().__init__()
        whole = torch.randn(200, 200)
        self.register_buffer("lower", whole[:100])
        self.register_buffer("upper", whole[100:])
        self.tied = nn.Linear(200, 200)
        self.other = nn.Linear(200, 200)
        self.other.weight = self.tied.weight

    def forward(self, x):
        return self.other(self.tied(x @ self.lower.T @ self.upper))


def test_file_with_weights_that_share_memory(tmp_path):
    path = save(Shared(), tmp_path / "shared.pt2", torch.randn(3, 200))
    assert operators(PytorchImporter().load(path)) == ["MatMul", "MatMul", "Gemm", "Gemm"]


def test_module_without_memory_for_its_weights():
    with FakeTensorMode():
        module = nn.Sequential(nn.Linear(10**5, 10**5), nn.GELU())  # 40 GB
        model = from_module(module, (torch.randn(1, 10**5),))
    assert operators(model) == ["Gemm", "Gelu"]


class Branching(nn.Module):
    def forward(self, x):
        return x + 1 if x.sum().item() > 0 else x * 2


def test_module_that_torch_cannot_follow_is_a_model_error():
    with pytest.raises(ModelError, match=r"cannot follow Branching") as raised:
        from_module(Branching(), (torch.randn(3),))
    assert raised.value.hint
    assert "\n" not in raised.value.message


class Untranslatable(nn.Module):
    def forward(self, x):
        return torch.linalg.eigvals(x)


def test_operator_that_onnx_lacks_is_a_model_error():
    with pytest.raises(ModelError, match=r"translation of .*eig.*importer.py") as raised:
        from_module(Untranslatable(), (torch.randn(3, 3),))
    assert raised.value.hint
    assert "\n" not in raised.value.message


def missing(path):
    return path / "missing.pt2"


def folder(path):
    return path


def garbage(path):
    (path / "garbage.pt2").write_bytes(b"not a zip file")
    return path / "garbage.pt2"


def weights_only(path):
    torch.save(Network().state_dict(), path / "weights.pt2")
    return path / "weights.pt2"


def truncated(path):
    torch.export.save(torch.export.export(Network().eval(), (IMAGE,)), path / "whole.pt2")
    (path / "half.pt2").write_bytes((path / "whole.pt2").read_bytes()[:2000])
    return path / "half.pt2"


@pytest.mark.parametrize("make", [missing, folder, garbage, weights_only, truncated])
def test_unreadable_program_is_a_model_error(make, tmp_path):
    with pytest.raises(ModelError) as raised:
        PytorchImporter().load(make(tmp_path))
    assert raised.value.hint
    assert "\n" not in raised.value.message


FACTORIES = """
import torch
from torch import nn

def pair():
    return nn.Linear(4, 2), (torch.randn(3, 4),)

def tensor():
    return nn.Linear(4, 2), torch.randn(3, 4)

def triple():
    return nn.MultiheadAttention(4, 2), (torch.randn(5, 1, 4),) * 3, {"need_weights": False}

def attribute():
    module = nn.Linear(4, 2)
    module.example_inputs = (torch.randn(3, 4),)
    return module

class Owner:
    @staticmethod
    def nested():
        return pair()

class Two(nn.Module):
    def forward(self, ids, mask, state):
        return ids * mask + state[0]

def batched():
    return Two(), (torch.randint(0, 9, (1, 6)), torch.ones(6), (torch.ones(1, 6),))

def bare():
    return nn.Linear(4, 2)

def wrong():
    return "module"

def failing():
    raise RuntimeError("no weights here")

def argument(x):
    return x

number = 3
"""


@pytest.fixture
def factories(tmp_path, monkeypatch):
    """A module of the user's own in the current directory."""
    (tmp_path / "own_factories.py").write_text(FACTORIES)
    (tmp_path / "own_broken.py").write_text("import not_a_module_at_all")
    (tmp_path / "own_failing.py").write_text("raise ValueError('bad')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield TorchFactories()
    sys.modules.pop("own_factories", None)


@pytest.mark.parametrize("name", ["pair", "tensor", "triple", "attribute", "Owner.nested"])
def test_factory_may_return(name, factories):
    model = factories.load(f"own_factories:{name}")
    assert model.source == f"torch:own_factories:{name}"
    assert {layer.op for layer in normalize(model).layers} & {"Gemm", "Attention"}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("own_factories", "names no factory"),
        (":pair", "names no factory"),
        ("own_factories:", "names no factory"),
        ("own_absent:pair", "no module 'own_absent'"),
        ("own_broken:pair", "needs the module 'not_a_module_at_all'"),
        ("own_failing:pair", "ValueError: bad"),
        ("own_factories:absent", "has no 'absent'"),
        ("own_factories:number", "is not a function"),
        ("own_factories:bare", "no example inputs"),
        ("own_factories:wrong", "returned str"),
        ("own_factories:failing", "RuntimeError: no weights here"),
        ("own_factories:argument", "argument"),
    ],
)
def test_factory_error_tells_what_and_what_to_do(name, message, factories):
    with pytest.raises(ModelError, match=message) as raised:
        factories.load(name)
    assert raised.value.hint
    assert "\n" not in raised.value.message


def test_factory_inputs_take_the_batch_size(factories):
    model = factories.load("own_factories:batched", ImportOptions(batch=4))
    shapes = [model.tensors[name].shape for name in model.inputs]
    assert shapes == [(4, 6), (6,), (4, 6)]


def test_factory_inputs_take_shapes(factories):
    shapes = {"ids": (2, 9), "mask": (9,)}
    with pytest.raises(DLBricksError):  # the third still has six columns
        factories.load("own_factories:batched", ImportOptions(shapes=shapes))
    model = factories.load("own_factories:pair", ImportOptions(shapes={"input": (7, 4)}))
    assert model.tensors[model.inputs[0]].shape == (7, 4)


def run(capfd, *arguments):
    with pytest.raises(SystemExit) as ended:
        main([str(each) for each in arguments])
    return ended.value.code, capfd.readouterr()


def test_command_line_takes_a_factory(factories, tmp_path, capfd):
    status, captured = run(capfd, "show", "torch:own_factories:pair", "--batch", 8,
                           "--json", tmp_path / "out.json")  # fmt: skip
    assert status == 0, captured.err
    model = json.loads((tmp_path / "out.json").read_text())["models"][0]
    assert (model["name"], model["layers"]) == ("pair", 1)


def test_command_line_names_what_is_wrong_with_a_factory(factories, capfd):
    status, captured = run(capfd, "show", "torch:own_factories:absent")
    assert status == 2
    assert "has no 'absent'" in captured.err
    assert "pair" in captured.err


def test_collection_of_own_models_cannot_be_listed(factories, capfd):
    status, captured = run(capfd, "show", "torch:")
    assert status == 2
    assert "torch:package.module:factory" in captured.err
    status, captured = run(capfd, "list")
    assert status == 0
    assert "torch:package.module:factory" in captured.out
    assert ".pt2" in captured.out


class _Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(100, 100)
        self.register_buffer("codes", torch.randint(-127, 127, (100, 100), dtype=torch.int8))
        self.register_buffer("scale", torch.rand(100))

    def forward(self, x):
        return self.linear(x) @ (self.codes.float() * self.scale)


def test_work_on_weights_is_done_in_each_run_but_transposed_weights_are_views():
    model = normalize(from_module(_Scaled().eval(), (torch.randn(2, 100),), {}, name="scaled"))
    assert not PytorchBackend.traits.folds_weights
    added = Counter(each.op for each in unfolded(model).layers)
    assert added - Counter(each.op for each in model.layers) == {"Cast": 1, "Mul": 1}

"""Factories that go wrong as users' do: the cause and its place are told, in one line."""

from __future__ import annotations

import shlex
import subprocess
import sys

import pytest
from dlbricks_pytorch.factories import TorchFactories

from dlbricks_core.errors import DLBricksError
from dlbricks_core.importers.base import cut
from dlbricks_core.passes import normalize

FACTS = '''
import sys
import torch
from torch import nn

class Net(nn.Module):
    """What a function of its arguments does."""

    def __init__(self, call):
        super().__init__()
        self.call = call

    def forward(self, x, y=None):
        return self.call(x, y)

ONES = torch.ones(2, 4)

def raises(): raise ValueError("no weights\\nin here")
def exits(): sys.exit("usage: train.py --config FILE")
def interrupts(): raise KeyboardInterrupt

class Unspeakable(BaseException):
    def __str__(self): raise RuntimeError

def unspeakable(): raise Unspeakable
def in_torch(): return torch.zeros(3).reshape(2), ONES
def needs(config, *rest, size=3): return nn.Linear(4, 4)
def a_dict(): return {"model": nn.Linear(4, 4)}
def nothing(): pass
def a_class(): return nn.Linear
def four(): return nn.Linear(4, 4), (ONES,), {}, 4
def no_inputs(): return nn.Linear(4, 4), None
def too_many(): return nn.Linear(4, 4), (ONES, ONES, ONES)
def of_script(): return torch.jit.trace(nn.Linear(4, 4), ONES), ONES
def of_object(): return Net(lambda x, y: x.value), (object(),)
def of_array(): return Net(lambda x, y: x), (ONES.numpy(),)
def number(): return Net(lambda x, y: 3), (ONES,)
def branches(): return Net(lambda x, y: x + 1 if x.sum() > 0 else x), (ONES,)
def sizes(): return Net(lambda x, y: x[: int(x.sum())] * 2), (ONES,)
def misfit(): return nn.Linear(3, 3), (ONES,)
def exits_later(): return Net(lambda x, y: sys.exit(3)), (ONES,)
def untranslated(): return Net(lambda x, y: torch.linalg.eigvals(x)), (torch.ones(3, 3),)

def packed():
    class Packed(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.GRU(4, 8)

        def forward(self, x, n):
            packed = nn.utils.rnn.pack_padded_sequence(x, n)
            return self.inner(packed)[1]

    return Packed(), (torch.ones(5, 2, 4), torch.tensor([5, 3]))

def int8():
    whole = nn.Sequential(nn.Linear(8, 8), nn.ReLU()).eval()
    return torch.ao.quantization.quantize_dynamic(whole, {nn.Linear}), torch.ones(2, 8)

@torch.library.custom_op("dlbricks_test::spiral", mutates_args=())
def spiral(x: torch.Tensor) -> torch.Tensor: return torch.relu(x)

@spiral.register_fake
def _(x): return torch.empty_like(x)

@torch.library.custom_op("dlbricks_test::bare", mutates_args=())
def bare(x: torch.Tensor) -> torch.Tensor: return torch.relu(x)

def custom(): return Net(lambda x, y: torch.ops.dlbricks_test.spiral(x)), (ONES,)
def without_fake(): return Net(lambda x, y: torch.ops.dlbricks_test.bare(x)), (ONES,)

def mixed(): return Net(lambda x, y: {"a": x + 1, "b": [x * 2, (x, None)], "n": 3}), (ONES,)
def in_a_list(): return [nn.Linear(4, 4), [ONES]]
def by_name(): return Net(lambda x, y: x - y), {"x": ONES, "y": ONES}
def one_dict(): return Net(lambda x, y: x["b"] * 2), {"b": ONES}
def with_none(): return Net(lambda x, y: x * 2 if y is None else y), (ONES, None)
def with_text(): return Net(lambda x, y: x * 2 if y == "twice" else x), (ONES, "twice")
def program(): return torch.export.export(nn.Linear(4, 4).eval(), (ONES,))
def prints():
    print("x" * 100_000)
    return nn.Linear(4, 4), ONES
def half(): return nn.Linear(4, 4).half(), ONES.half()
def on_meta():
    with torch.device("meta"): return nn.Linear(4, 4), ONES

def imports(): import not_here_at_all
def imports_later():
    try: import not_here_at_all
    except ImportError as error: raise RuntimeError("cannot build it") from error

def imports_a_name(): from torch import no_such_name
def of_text(): return torch.zeros("a", 3)

import functools
def giving(function, *given):
    @functools.wraps(function)
    def wrapped(*args): return function(*given, *args)
    return wrapped

def sized(size): return nn.Linear(size, size), torch.ones(2, size)
decorated = giving(sized, 4)

@giving
def passed_on(size): return sized(size)
def misses_later(): return nn.Linear(4), ONES
def in_place(): return Net(lambda x, y: x.add_(1) * 2), (ONES,)
'''


@pytest.fixture
def load(tmp_path, monkeypatch):
    (tmp_path / "facts.py").write_text(FACTS)
    (tmp_path / "unparsed.py").write_text("import sys\ndef x(: pass\n")
    (tmp_path / "lacking.py").write_text("import not_here_at_all\n")
    (tmp_path / "light.py").write_text("def raises(): raise ValueError('no weights')\n")
    (tmp_path / "exiting.py").write_text("import sys\nsys.exit(2)\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield TorchFactories().load
    for name in ("facts", "light"):
        sys.modules.pop(name, None)


def line_of(text):
    """Number of the line of the factories that holds a text."""
    return next(i for i, line in enumerate(FACTS.splitlines(), 1) if text in line)


FAILED = {
    "raises": ["ValueError: no weights", f"facts.py:{line_of('def raises')}"],
    "exits": ["SystemExit: usage: train.py --config FILE", "facts.py:"],
    "interrupts": ["KeyboardInterrupt", "facts.py:"],
    "unspeakable": ["Unspeakable", "facts.py:"],
    "in_torch": ["RuntimeError: shape '[2]'", f"facts.py:{line_of('def in_torch')}"],
    "needs": ["needs the arguments config"],
    "a_dict": ["returned dict"],
    "nothing": ["returned None"],
    "a_class": ["returned the class Linear itself"],
    "four": ["returned 4 things: Linear, tuple, dict, int"],
    "no_inputs": ["no example inputs"],
    "too_many": ["do not fit Linear.forward", "too many positional arguments"],
    "of_script": ["TorchScript"],
    "of_object": ["Unsupported input type"],
    "of_array": ["Unsupported input type", "ndarray"],
    "number": ["returns no tensor"],
    "branches": ["depends on the values of a tensor", f"facts.py:{line_of('def branches')}"],
    "sizes": ["depends on the values of a tensor", f"facts.py:{line_of('def sizes')}"],
    "misfit": ["reduction dim"],
    "exits_later": ["SystemExit: 3", f"facts.py:{line_of('def exits_later')}"],
    "untranslated": ["no translation of aten.linalg_eig", "facts.py:"],
    "packed": ["comes from the values of a tensor", f"facts.py:{line_of('self.inner(packed)')}"],
    "int8": ["packed into an object"],
    "custom": ["the custom operator dlbricks_test::spiral", "facts.py:"],
    "without_fake": ["dlbricks_test::bare", "fake impl"],
    "absent": ["has no 'absent'"],
    "imports": ["needs the module 'not_here_at_all'", f"facts.py:{line_of('def imports()')}"],
    "imports_later": ["needs the module 'not_here_at_all'", "facts.py:"],
    "imports_a_name": ["cannot import name 'no_such_name' from 'torch'", "facts.py:"],
    "of_text": ["TypeError: zeros()", f"facts.py:{line_of('def of_text')}"],
    "passed_on": ["missing 1 required positional argument: 'size'", "facts.py:"],
    "misses_later": ["missing 1 required", f"facts.py:{line_of('def misses_later')}"],
}


@pytest.mark.parametrize("name", FAILED)
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_cause_is_told_with_its_place(name, load):
    with pytest.raises(DLBricksError) as raised:
        load(f"facts:{name}")
    message = raised.value.message
    assert len(message.splitlines()) == 1
    assert raised.value.hint
    for word in (f"facts:{name}", *FAILED[name]):
        assert word in message
    assert ("without arguments" in raised.value.hint) == (name in ("needs", "passed_on"))


@pytest.mark.parametrize(
    ("name", "message", "hint"),
    [
        ("unparsed:x", "(unparsed.py:2): SyntaxError", "python -c 'import unparsed'"),
        ("lacking:x", "(lacking.py:1) needs the module 'not_here_at_all'", "Install"),
        ("exiting:x", "(exiting.py:2): SystemExit: 2", "python -c"),
        ("facts.py:raises", "not the name of a module", "torch:facts:raises"),
        ("./deep/facts.py:raises", "not the name of a module", "torch:deep.facts:raises"),
        ("facts'; x:raises", "not the name of a module", "torch:package.module:factory"),
        ("facts.sub:raises", "no module 'facts.sub'", "torch:package.module:factory"),
    ],
)
def test_module_at_fault_is_told(name, message, hint, load):
    with pytest.raises(DLBricksError) as raised:
        load(name)
    assert message in raised.value.message
    assert hint in raised.value.hint


def test_hint_can_be_pasted_into_a_shell(load):
    with pytest.raises(DLBricksError) as raised:
        load("light:raises")  # whose module imports no torch
    command = shlex.split(raised.value.hint.removeprefix("Try: "))
    ended = subprocess.run([sys.executable, *command[1:]], capture_output=True, text=True)
    assert "ValueError: no weights" in ended.stderr


@pytest.mark.parametrize(
    ("name", "operators"),
    [
        ("mixed", ["Add", "Mul"]),
        ("in_a_list", ["Gemm"]),
        ("by_name", ["Sub"]),
        ("one_dict", ["Mul"]),
        ("with_none", ["Mul"]),
        ("with_text", ["Mul"]),
        ("program", ["Gemm"]),
        ("prints", ["Gemm"]),
        ("half", ["Gemm"]),
        ("on_meta", ["Gemm"]),
        ("decorated", ["Gemm"]),
        ("in_place", ["Add", "Mul"]),
    ],
)
def test_factory_may_return_and_take(name, operators, load):
    assert [layer.op for layer in normalize(load(f"facts:{name}")).layers] == operators


def test_long_lists_are_cut_with_their_count():
    assert cut(["a", "b"]) == "a, b"
    assert cut([str(i) for i in range(45)]).endswith("7 ... and 37 more")

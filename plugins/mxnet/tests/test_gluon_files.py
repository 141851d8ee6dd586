"""Every layer of Gluon, exported by MXNet and read back from the file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnxruntime
import pytest
from dlbricks_mxnet import export
from dlbricks_mxnet.export import fill
from dlbricks_mxnet.framework import import_mxnet
from dlbricks_mxnet.importer import MxnetImporter

from dlbricks_core.importers import ImportOptions
from dlbricks_core.passes import normalize

mx = import_mxnet()
gluon = mx.gluon
nn, rnn, more, cells = gluon.nn, gluon.rnn, gluon.contrib.nn, gluon.contrib.rnn


@dataclass(frozen=True)
class Row:
    """A layer, and the shapes of its inputs.

    Attributes:
        kind: The class.
        shapes: Of its inputs, in their order.
        given: Positional arguments.
        options: Named arguments.
        known: Named arguments by which sizes are known before the first input; where they are
            missing, initialization is deferred.
        after: What makes a block of a layer that is not called with arrays alone.
    """

    kind: type
    shapes: tuple[tuple[int, ...], ...]
    given: tuple[Any, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    known: Mapping[str, Any] = field(default_factory=dict)
    after: Callable[[Any], Any] = lambda block: block

    def make(self, deferred: bool):
        known = {} if deferred else self.known
        return self.after(self.kind(*self.given, **self.options, **known))


class Stepping(gluon.HybridBlock):
    """One step of a cell whose states are inputs."""

    def __init__(self, cell):
        super().__init__()
        with self.name_scope():
            self.cell = cell

    def hybrid_forward(self, F, data, *states):
        return self.cell(data, list(states))[1]  # the first of them is the result as well


class Unrolled(gluon.HybridBlock):
    """Three steps of a cell, whose states begin at zero."""

    def __init__(self, cell):
        super().__init__()
        with self.name_scope():
            self.cell = cell

    def hybrid_forward(self, F, data):
        result, _ = self.cell.unroll(3, data, layout="NTC", merge_outputs=True)
        return result


def row(kind, *shapes, given=(), known=None, after=None, **options):
    extra = {} if after is None else {"after": after}
    return Row(kind, shapes, given, options, known or {}, **extra)


def _maps(axes, channels=3, size=6):
    return (2, channels, *[size] * axes)


def _stack():
    stack = rnn.HybridSequentialRNNCell()
    for cell in (rnn.LSTMCell(4), rnn.GRUCell(4)):
        stack.add(cell)
    return stack


def _sequential():
    block = nn.HybridSequential()
    block.add(nn.Conv2D(4, 3), nn.LayerNorm(), nn.Dense(5))
    return block


def _concurrent():
    block = more.HybridConcurrent(axis=1)
    block.add(nn.Dense(3), more.Identity(), nn.Dense(2))
    return block


def _rows():
    table = {}
    for axes in (1, 2, 3):
        conv, back = (getattr(nn, f"Conv{axes}D{end}") for end in ("", "Transpose"))
        table[f"conv {axes}"] = row(
            conv, _maps(axes), channels=4, kernel_size=3, padding=1, known={"in_channels": 3}
        )
        table[f"conv {axes} back"] = row(
            back, _maps(axes), channels=4, kernel_size=3, strides=2, known={"in_channels": 3}
        )
        for kind in ("Max", "Avg"):
            table[f"{kind} pool {axes}"] = row(getattr(nn, f"{kind}Pool{axes}D"), _maps(axes))
            table[f"{kind} pool {axes} up"] = row(
                getattr(nn, f"{kind}Pool{axes}D"), _maps(axes, size=7), ceil_mode=True
            )
            whole = getattr(nn, f"Global{kind}Pool{axes}D")
            table[f"global {kind} pool {axes}"] = row(whole, _maps(axes))
        table[f"shuffle {axes}"] = row(
            getattr(more, f"PixelShuffle{axes}D"), _maps(axes, 2**axes * 3), factor=2
        )
        for kind in ("RNN", "LSTM", "GRU"):
            states = 2 if kind == "LSTM" else 1
            table[f"conv {kind} {axes}"] = row(
                getattr(cells, f"Conv{axes}D{kind}Cell"),
                *[_maps(axes), *[_maps(axes, 4)] * states],
                input_shape=_maps(axes)[1:], hidden_channels=4, i2h_kernel=3, h2h_kernel=3,
                i2h_pad=1, after=Stepping,
            )  # fmt: skip
    image, rows, steps = (2, 3, 6, 5), (4, 6), (2, 3, 5)
    table |= {
        "grouped conv": row(
            nn.Conv2D, _maps(2, 4), channels=8, kernel_size=3, groups=2, known={"in_channels": 4}
        ),
        "dense": row(nn.Dense, rows, units=3, known={"in_units": 6}),
        "dense flat": row(nn.Dense, image, units=3, known={"in_units": 90}),
        "dense, axes kept": row(nn.Dense, image, units=3, flatten=False, known={"in_units": 5}),
        "dense without bias": row(
            nn.Dense, rows, units=3, use_bias=False, activation="tanh", known={"in_units": 6}
        ),
        "embedding": row(nn.Embedding, (2, 7), input_dim=9, output_dim=4),
        "dropout": row(nn.Dropout, rows, rate=0.5),
        "flatten": row(nn.Flatten, image),
        "batch norm": row(nn.BatchNorm, image, known={"in_channels": 3}),
        "batch norm, fixed": row(
            nn.BatchNorm, image, scale=False, center=False, known={"in_channels": 3}
        ),
        "batch norm and relu": row(nn.BatchNormReLU, image, known={"in_channels": 3}),
        "sync batch norm": row(more.SyncBatchNorm, image, known={"in_channels": 3}),
        "layer norm": row(nn.LayerNorm, (2, 5, 8), known={"in_channels": 8}),
        "layer norm, second axis": row(nn.LayerNorm, (2, 5, 8), axis=1, known={"in_channels": 5}),
        "layer norm, fixed": row(
            nn.LayerNorm, (2, 5, 8), center=False, scale=False, known={"in_channels": 8}
        ),
        "group norm": row(nn.GroupNorm, _maps(2, 6), num_groups=3),
        "instance norm": row(nn.InstanceNorm, image, known={"in_channels": 3}),
        "prelu": row(nn.PReLU, image),
        "prelu of channels": row(nn.PReLU, image, in_channels=3),
        "leaky relu": row(nn.LeakyReLU, rows, alpha=0.1),
        "elu": row(nn.ELU, rows),
        "selu": row(nn.SELU, rows),
        "gelu": row(nn.GELU, rows),
        "swish": row(nn.Swish, rows),
        "swish, faster": row(nn.Swish, rows, beta=1.7),
        "reflection": row(nn.ReflectionPad2D, image, padding=2),
        "lambda": row(nn.HybridLambda, rows, given=("tanh",)),
        "sequential": row(_sequential, image),
        "concurrent": row(_concurrent, rows),
        "identity": row(more.Identity, rows),
        "in a block of a symbol": row(_of_symbol, rows),
    }
    for kind in ("relu", "sigmoid", "softrelu", "softsign", "tanh"):
        table[f"activation {kind}"] = row(nn.Activation, rows, activation=kind)
    for kind in ("RNN", "LSTM", "GRU"):
        whole, cell = getattr(rnn, kind), getattr(rnn, f"{kind}Cell")
        count, known = 2 if kind == "LSTM" else 1, {"input_size": 5}
        table[kind] = row(
            whole, steps, *[(1, 3, 4)] * count, hidden_size=4, known=known, after=Stepping
        )
        table[f"{kind} deep"] = row(
            whole, steps, *[(4, 2, 4)] * count, hidden_size=4, num_layers=2, bidirectional=True,
            layout="NTC", known=known, after=Stepping,
        )  # fmt: skip
        table[f"{kind} cell"] = row(
            cell, (2, 5), *[(2, 4)] * count, hidden_size=4, known=known, after=Stepping
        )
        table[f"{kind} unrolled"] = row(cell, steps, hidden_size=4, known=known, after=Unrolled)
    table |= {
        "both ways": row(
            lambda: rnn.BidirectionalCell(rnn.LSTMCell(4), rnn.LSTMCell(4)), steps, after=Unrolled
        ),
        "stack": row(_stack, steps, after=Unrolled),
        "cell that drops": row(lambda: rnn.DropoutCell(0.3), steps, after=Unrolled),
        "residual cell": row(lambda: rnn.ResidualCell(rnn.GRUCell(5)), steps, after=Unrolled),
        "zoneout": row(lambda: rnn.ZoneoutCell(rnn.RNNCell(4), 0.2, 0.2), steps, after=Unrolled),
        "projected": row(
            cells.LSTMPCell,
            steps,
            hidden_size=6,
            projection_size=4,
            known={"input_size": 5},
            after=Unrolled,
        ),
        "variational": row(
            lambda: cells.VariationalDropoutCell(rnn.LSTMCell(4), 0.2, 0.2), steps, after=Unrolled
        ),
    }
    return table


def _of_symbol():
    weight = mx.sym.var("fc_weight", shape=(3, 6))
    symbol = mx.sym.FullyConnected(mx.sym.var("data"), weight, num_hidden=3, no_bias=True)
    return gluon.SymbolBlock(symbol, [mx.sym.var("data")])


TABLE = _rows()
#: Bases of layers.
NO_LAYERS = {gluon.HybridBlock, rnn.HybridRecurrentCell, rnn.ModifierCell}


def test_no_layer_is_forgotten():
    kinds = {
        value
        for module in (nn, rnn, more, cells)
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, gluon.HybridBlock)
    }
    made = set()
    for each in TABLE.values():
        made |= _kinds(each.make(deferred=True))
    assert kinds - NO_LAYERS <= made


def _kinds(block):
    inner = [kind for child in block._children.values() for kind in _kinds(child)]
    return {type(block), *inner}


@pytest.mark.parametrize(
    ("name", "deferred"),
    [
        pytest.param(name, deferred, id=f"{name}, deferred" if deferred else name)
        for name, each in TABLE.items()
        for deferred in ((False, True) if each.known else (True,))
    ],
)
def test_an_exported_layer_is_read_back(name, deferred, tmp_path, monkeypatch):
    each = TABLE[name]
    check(each, each.make(deferred), tmp_path, monkeypatch)


def check(each, block, folder, monkeypatch):
    rng = np.random.default_rng(3)
    mx.random.seed(3)
    block.initialize(mx.init.Xavier(magnitude=3))
    block.hybridize()
    arrays = [rng.uniform(-1, 1, shape).astype(np.float32) for shape in each.shapes]
    if each.kind is nn.Embedding:
        arrays = [np.floor(abs(array) * 9).astype(np.float32) for array in arrays]
    fed = [mx.nd.array(array) for array in arrays]
    block(*fed)
    for key, parameter in block.collect_params().items():
        if not key.endswith("weight"):  # those are drawn already; the rest are zeros and ones
            parameter.set_data(mx.nd.array(rng.uniform(0.5, 1.5, parameter.shape)))
    wanted = _flat(block(*fed))
    block.export(str(folder / "net"))

    file = folder / "net-symbol.json"
    names = [name for name in mx.sym.load(str(file)).list_inputs() if name.startswith("data")]
    shapes = dict(zip(names, each.shapes, strict=True))
    # A batch of 7: no weight's first axis may become one.
    model, proto = _read(file, ImportOptions(batch=7, shapes=shapes), monkeypatch)
    assert all(spec.is_static for spec in normalize(model).tensors.values())
    saved = mx.nd.load(str(folder / "net-0000.params")) or {}
    values = {key.partition(":")[2]: array.asnumpy() for key, array in saved.items()}
    session = _session(fill(proto, values))
    found = session.run(list(model.outputs), dict(zip(names, arrays, strict=True)))
    for ours, theirs in zip(found, wanted, strict=True):
        assert ours.shape == theirs.shape
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-4 * max(1, np.abs(theirs).max()))


def _read(file, options, monkeypatch):
    """The model, and the ONNX graph that the importer reads it from."""
    exported = []
    original = export.export

    def keep(*given):
        exported.append(original(*given))
        return exported[-1]

    with monkeypatch.context() as patch:
        patch.setattr(export, "export", keep)
        model = MxnetImporter().load(file, options)
    return model, exported[-1]


def _flat(results):
    if isinstance(results, list | tuple):
        return [array for each in results for array in _flat(each)]
    return [results.asnumpy()]


def _session(proto):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(
        proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )

r"""Peak memory of whole networks: observed by a process of its own, by DLBricks, and composed.

    python benchmarks/memory.py BACKEND MODEL...
    python benchmarks/memory.py onnxruntime onnx:light_resnet50 mxnet:vgg16 --threads 2 --json FILE

The separate process contains no part of DLBricks. It imports the framework, loads a file in the
framework's own format as in its documentation, and runs the network three times: an ONNX file and
`InferenceSession`, an exported program and `torch.export.load`, a symbol with its parameters and
`SymbolBlock`, without gradients. At its end it prints its peak resident memory (as `/usr/bin/time
-v` does). The peak of the same process with a trivial network is subtracted; the rest is the memory
of the network. Another process writes the files.

Columns, in MiB: the whole process; the process without the framework; DLBricks' measurement of the
whole network; its composition from bricks; and the errors of these two relative to the process.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

RUNS = 3
"""Runs of each network: in the first, frameworks allocate what they keep."""

PROCESSES = 3
"""Processes for each network: what an allocator keeps of freed memory differs from one to the next.
The median counts."""


# What a user's process does; nothing of DLBricks is imported here.


def _onnxruntime(folder: Path, threads: int) -> None:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    session = ort.InferenceSession(folder / "model.onnx", options)
    inputs = _inputs(folder)
    for _ in range(RUNS):
        session.run(None, inputs)


def _pytorch(folder: Path, threads: int) -> None:
    import torch

    torch.set_num_threads(threads)
    module = torch.export.load(folder / "model.pt2").module()
    inputs = [torch.from_numpy(each) for each in _inputs(folder).values()]
    with torch.inference_mode():
        for _ in range(RUNS):
            module(*inputs)


def _mxnet(folder: Path, threads: int) -> None:
    import numpy as np

    vars(np).setdefault("bool", np.bool_)
    import mxnet as mx

    names = json.loads((folder / "names.json").read_text())
    parameters = folder / "model.params"
    block = mx.gluon.SymbolBlock.imports(str(folder / "model.json"), names)
    # Gluon otherwise makes room for the gradients of all weights, as training needs it.
    block.collect_params().setattr("grad_req", "null")
    if parameters.exists():
        block.collect_params().load(str(parameters), cast_dtype=True, dtype_source="saved")
    block.hybridize()
    inputs = [mx.nd.array(each, dtype=each.dtype) for each in _inputs(folder).values()]
    for _ in range(RUNS):
        block(*inputs)
        mx.nd.waitall()


def _inputs(folder: Path) -> dict[str, Any]:
    import numpy as np

    with np.load(folder / "inputs.npz") as file:
        return {name: file[name] for name in file}


USERS: Mapping[str, Callable[[Path, int], None]] = {
    "onnxruntime": _onnxruntime,
    "pytorch": _pytorch,
    "mxnet": _mxnet,
}


# What writes the files.


def _write(backend: str, spec: str, dims: Mapping[str, int], batch: int | None, to: Path) -> None:
    import numpy as np

    from dlbricks_core.backends.call import next_to_nothing
    from dlbricks_core.importers import LoadOptions
    from dlbricks_core.importers.models import load_models
    from dlbricks_core.progress import Observer
    from dlbricks_core.values import materialize

    if spec:
        (model,) = load_models([spec], LoadOptions(dims=dims, batch=batch), Observer()).models
        if batch and all(model.tensors[name].sizes[:1] != (batch,) for name in model.inputs):
            raise SystemExit(f"{spec} has a batch of its own: no input has a batch of {batch}")
    else:
        model = next_to_nothing(1)
    network = materialize(model)
    _WRITERS[backend](network, to)
    np.savez(to / "inputs.npz", **network.inputs)


def _write_onnx(network: Any, to: Path) -> None:
    import onnx

    from dlbricks_core.ir import to_onnx

    apart = network.model.weight_bytes > 2_000_000_000
    onnx.save(to_onnx(network.model, network.weights), to / "model.onnx",
              save_as_external_data=apart)  # fmt: skip


def _write_program(network: Any, to: Path) -> None:
    import torch
    from dlbricks_pytorch.lowering import lower
    from dlbricks_pytorch.tensors import from_numpy

    inputs = tuple(from_numpy(network.inputs[name]) for name in network.model.inputs)
    with torch.no_grad():
        torch.export.save(torch.export.export(lower(network), inputs), to / "model.pt2")


def _write_symbol(network: Any, to: Path) -> None:
    from dlbricks_mxnet.framework import import_mxnet
    from dlbricks_mxnet.lowering import lower

    mx = import_mxnet()
    lowered = lower(network)
    lowered.symbol.save(str(to / "model.json"))
    (to / "names.json").write_text(json.dumps(lowered.inputs))
    arrays = {
        f"{'aux' if name in lowered.auxiliary else 'arg'}:{name}": mx.nd.array(v, dtype=v.dtype)
        for name, v in lowered.arrays.items()
    }
    if arrays:
        mx.nd.save(str(to / "model.params"), arrays)


_WRITERS: Mapping[str, Callable[[Any, Path], None]] = {
    "onnxruntime": _write_onnx,
    "pytorch": _write_program,
    "mxnet": _write_symbol,
}


@dataclass(frozen=True)
class Row:
    """Peak memory of a network in MiB.

    Attributes:
        model: Name of the network, as it was asked for.
        process: Peak of the user's process.
        alone: Peak without that of a process with a trivial network.
        spread: Range over several processes.
        measured: Peak of the whole network as measured by DLBricks.
        composed: Peak of the whole network as composed by DLBricks.
    """

    model: str
    process: float
    alone: float
    spread: float
    measured: float | None
    composed: float | None

    def error(self, value: float | None) -> float | None:
        """Relative error of a value against the user's process."""
        return value / self.alone - 1 if value is not None else None


@dataclass(frozen=True)
class Bench:
    """Settings for all networks."""

    backend: str
    threads: int
    runs: int
    dims: Mapping[str, int]
    batch: int | None

    def row(self, spec: str, tiny: float) -> Row:
        """Figures of one network."""
        taken = self.process(spec)
        measured, composed = self._product(spec)
        middle = sorted(taken)[len(taken) // 2]
        spread = max(taken) - min(taken)
        return Row(spec, middle, middle - tiny, spread, measured, composed)

    def process(self, spec: str) -> list[float]:
        """MiB at the peak of processes that load and run a network; a tiny one has no name."""
        with tempfile.TemporaryDirectory() as folder:
            asked = [self.backend, folder, "--threads", str(self.threads)]
            wanted = [f"--dim={name}={size}" for name, size in self.dims.items()]
            if self.batch:
                wanted.append(f"--batch={self.batch}")
            _ran([*asked, *wanted, f"--write={spec}"], {})
            threads = {"OMP_NUM_THREADS": str(self.threads), "MXNET_SUBGRAPH_VERBOSE": "0"}
            return [float(_ran([*asked, "--use"], threads)) for _ in range(PROCESSES)]

    def _product(self, spec: str) -> tuple[float | None, float | None]:
        """DLBricks' measured and composed values."""
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "run.json"
            command = [sys.executable, "-m", "dlbricks_core.cli", "estimate",
                       "--measure", spec, "--end-to-end",
                       "--quantity", "peak-memory", "--backend", self.backend,
                       "--threads", str(self.threads), "--runs", str(self.runs),
                       "--store", str(Path(folder) / "store.sqlite"), "--json", str(file),
                       *(f"--dim={name}={size}" for name, size in self.dims.items()),
                       *([f"--batch={self.batch}"] if self.batch else [])]  # fmt: skip
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                print(f"{spec}: {done.stderr.strip() or done.stdout.strip()}", file=sys.stderr)
            if not file.exists():
                return None, None
            (found,) = json.loads(file.read_text())["models"]
            return found["measured"], None if found["partial"] else found["estimate"]


def _ran(arguments: Sequence[str], environment: Mapping[str, str]) -> str:
    """Last line that this file prints in a process of its own."""
    done = subprocess.run([sys.executable, __file__, *arguments], capture_output=True, text=True,
                          check=False, env={**os.environ, **environment})  # fmt: skip
    if done.returncode:
        raise SystemExit(f"{' '.join(arguments)}:\n{done.stderr}")
    return (done.stdout.splitlines() or [""])[-1]


def _peak_mib() -> float:
    """Peak resident memory of this process in MiB, which unlike ru_maxrss excludes its parent's."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def _text(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def _pair(text: str) -> tuple[str, int]:
    name, _, size = text.partition("=")
    return name, int(size)


def main() -> None:
    """Prints a table, and writes JSON."""
    about = (__doc__ or "").partition("\n")[0]
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("backend", choices=sorted(USERS))
    parser.add_argument("models", nargs="+", metavar="MODEL")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--runs", type=int, default=2, help="observations of each brick")
    parser.add_argument("--dim", type=_pair, action="append", default=[], metavar="NAME=SIZE")
    parser.add_argument("--batch", type=int)
    parser.add_argument("--json", type=Path, help="file for all figures")
    parser.add_argument("--use", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--write", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.use:
        USERS[given.backend](Path(given.models[0]), given.threads)
        print(_peak_mib())
        return
    if given.write is not None:
        to = Path(given.models[0])
        _write(given.backend, given.write, dict(given.dim), given.batch, to)
        return
    bench = Bench(given.backend, given.threads, given.runs, dict(given.dim), given.batch)
    tiny = min(bench.process(""))
    print(f"{given.backend}, {given.threads} threads; MiB; without a network {tiny:.0f}")
    print("model                         process  alone spread   measured       composed")
    rows = []
    for spec in given.models:
        row = bench.row(spec, tiny)
        rows.append(row)
        print(f"{spec:30}{row.process:7.0f} {row.alone:6.0f} {row.spread:6.0f} "
              f"{_text(row.measured, '6.0f'):>6} {_text(row.error(row.measured), '+7.1%'):>7} "
              f"{_text(row.composed, '6.0f'):>6} {_text(row.error(row.composed), '+7.1%'):>7}",
              flush=True)  # fmt: skip
    if given.json:
        found = {**asdict(bench), "tiny": tiny, "rows": [asdict(row) for row in rows]}
        given.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()

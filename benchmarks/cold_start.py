"""Accuracy of composed cold starts, compared with processes that run only the framework.

Each model is saved in the usual files of the framework. A new process imports the framework, opens
the files and runs the model, as a user's program does. Its time is taken from outside, until it
reports the first result. Half of the processes find the files in the page cache; for the other
half, the files are dropped from it. In the middle of these rounds, DLBricks measures bricks and
composes the same times.

    python benchmarks/cold_start.py onnxruntime onnx:squeezenet onnx:resnet50
    python benchmarks/cold_start.py mxnet onnx:resnet50 --program mxnet-module

MXNet has several ways to open a network. The usual program takes `SymbolBlock` without gradients,
as the benchmark of memory does; others take it as in MXNet's pages, or `Module`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

from dlbricks_core.api.inputs import models_of
from dlbricks_core.backends import Backend, BackendSettings
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.plugins import find
from dlbricks_core.values import materialize

_BEGIN = """\
import glob, json, os, sys, time
folder, threads, names, runs = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3]), 9
def inputs():
    return [numpy.load(f"{folder}/input{i}.npy") for i in range(len(names))]
marks = []
def mark():
    marks.append(time.perf_counter())
"""

_END = """
for _ in range(runs):
    run()
    mark()
    if len(marks) == 3:
        print("first result", flush=True)
print(json.dumps(marks), flush=True)
os._exit(0)  # nothing is measured from here on
"""

_MXNET = """\
import numpy
numpy.bool = numpy.bool_
import mxnet
mark()
path = f"{{folder}}/network-0000.params"
{open}
mxnet.nd.waitall()
mark()
fed = {fed}
def run():
    {call}
    mxnet.nd.waitall()
"""
_ARRAYS = "[mxnet.nd.array(each, dtype=each.dtype) for each in inputs()]"

PROGRAMS = {
    "onnxruntime": """\
import numpy, onnxruntime
mark()
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = threads
path = f"{folder}/model.onnx"
session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
mark()
fed = dict(zip(names, inputs()))
def run():
    return session.run(None, fed)
""",
    "pytorch": """\
import numpy, torch
torch.set_num_threads(threads)
mark()
sys.path.insert(0, folder)
from network import Network
network = Network(torch.load(f"{folder}/weights.pt"))
mark()
fed = [torch.from_numpy(each) for each in inputs()]
def run():
    with torch.inference_mode():
        return network(*fed)
""",
    "mxnet": _MXNET.format(
        open="""\
block = mxnet.gluon.SymbolBlock.imports(f"{folder}/network-symbol.json", names)
block.collect_params().setattr("grad_req", "null")
block.collect_params().load(path, cast_dtype=True, dtype_source="saved")""",
        fed=_ARRAYS, call="block(*fed)",
    ),
    "mxnet-gradients": _MXNET.format(
        open="""\
block = mxnet.gluon.SymbolBlock.imports(f"{folder}/network-symbol.json", names, path)""",
        fed=_ARRAYS, call="block(*fed)",
    ),
    "mxnet-module": _MXNET.format(
        open="""\
symbol, arguments, auxiliary = mxnet.model.load_checkpoint(f"{folder}/network", 0)
module = mxnet.mod.Module(symbol, data_names=names, label_names=None, context=mxnet.cpu())
described = [mxnet.io.DataDesc(n, each.shape, each.dtype) for n, each in zip(names, inputs())]
module.bind(described, for_training=False)
module.set_params(arguments, auxiliary)""",
        fed=f"mxnet.io.DataBatch({_ARRAYS})", call="module.forward(fed, is_train=False)",
    ),
}  # fmt: skip
"""User programs; the first part of a name is the backend."""

STEPS = "starting", "opening", "first-run"
COUNTED = {
    "starting": ("starting",),
    "opening": ("reading", "parsing", "preparing"),
    "first-run": ("first-run",),
    "settling": ("settling",),
}
"""Parts of the quantity ``cold-start`` that make up each step of a program."""


@dataclass
class Taken:
    """Milliseconds of processes, one in each round.

    Attributes:
        total: Time until the first result, taken from outside.
        steps: Times by the name of the step.
    """

    total: list[float] = field(default_factory=list)
    steps: dict[str, list[float]] = field(default_factory=dict)

    def add(self, total: float, steps: Mapping[str, float]) -> None:
        """Adds the times of one process."""
        self.total.append(total)
        for name, value in steps.items():
            self.steps.setdefault(name, []).append(value)


@dataclass(frozen=True)
class Case:
    """A model in files.

    Attributes:
        source: Name of the model, for DLBricks.
        model: The model.
        folder: Folder of the files.
        cold: Processes that read the files from the disk.
        warm: Processes that read the files from the page cache.
    """

    source: str
    model: CanonicalModel
    folder: Path
    cold: Taken = field(default_factory=Taken)
    warm: Taken = field(default_factory=Taken)


def write(backend: str, settings: BackendSettings, source: str, folder: Path) -> None:
    """Writes a model's files and inputs; runs in a process of its own."""
    (model,) = models_of(source)
    network = materialize(model, 0)
    _backend(backend).timer(settings).save(network, folder)
    for position, name in enumerate(model.inputs):
        np.save(folder / f"input{position}.npy", network.inputs[name])


def run_once(case: Case, program: str, environment: Mapping[str, str], threads: int) -> None:
    """Runs the program with files in the page cache, and with files on the disk."""
    for taken in (case.warm, case.cold):
        for path in case.folder.rglob("*"):
            if path.is_file() and taken is case.cold:
                _drop(path)
        source = _BEGIN + PROGRAMS[program] + _END
        arguments = [str(case.folder), str(threads), json.dumps(case.model.inputs)]
        begin = perf_counter()
        with subprocess.Popen(
            [sys.executable, "-c", source, *arguments],
            stdout=subprocess.PIPE, text=True, env=environment,
        ) as process:  # fmt: skip
            assert process.stdout is not None
            told = process.stdout.readline()
            total = (perf_counter() - begin) * 1e3
            if not told:
                raise SystemExit(f"the program for {case.source} failed")
            marks = json.loads(process.stdout.readline())
        steps = np.diff([begin, *marks]) * 1e3
        runs = steps[2:]
        settling = runs.sum() - len(runs) * runs[1:].min()
        taken.add(total, {**dict(zip(STEPS, steps, strict=False)), "settling": settling})


def composed(cases: Sequence[Case], backend: str, threads: int, folder: Path) -> tuple[Any, float]:
    """DLBricks' JSON results for the models, and the seconds that it took."""
    path = folder / "composed.json"
    begin = perf_counter()
    subprocess.run(
        [sys.executable, "-m", "dlbricks_core.cli", "estimate", "--measure",
         *(case.source for case in cases), "--backend", backend, "--threads", str(threads),
         "--quantity", "cold-start", "--store", str(folder / "store.sqlite"), "--json", str(path)],
        check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    return json.loads(path.read_text("utf-8"))["models"], perf_counter() - begin


def _drop(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _backend(name: str) -> Backend:
    found: Backend = find("backend", name, Backend).loaded()
    return found


def main() -> None:
    """Prints each model's cold start, measured and composed, and their parts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("backend", choices=[name for name in PROGRAMS if "-" not in name])
    parser.add_argument("models", nargs="+")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=8, help="processes of each kind and model")
    parser.add_argument("--program", choices=PROGRAMS, help="another user program")
    parser.add_argument("--write", help=argparse.SUPPRESS)
    given = parser.parse_args()
    program = given.program or given.backend
    backend = _backend(given.backend)
    options = {name: each.default for name, each in backend.options.items()}
    settings = BackendSettings(given.threads, options)
    if given.write:
        write(given.backend, settings, given.models[0], Path(given.write))
        return
    environment = {**os.environ, **backend.environment(settings)}
    for name in ("PYTHONPATH", "DLBRICKS_ONNXRUNTIME_WORKER"):
        environment.pop(name, None)
    with tempfile.TemporaryDirectory() as name:
        cases = []
        for position, source in enumerate(given.models):
            folder = Path(name) / str(position)
            folder.mkdir()
            command = [sys.executable, __file__, given.backend, source, "--write", str(folder)]
            subprocess.run([*command, "--threads", str(given.threads)], check=True)
            cases.append(Case(source, *models_of(source), folder))
        for number in range(given.rounds):
            if number == given.rounds // 2:
                estimates, seconds = composed(cases, given.backend, given.threads, Path(name))
            for case in cases:
                run_once(case, program, environment, given.threads)
    print(f"{program}, {given.threads} thread(s), {given.rounds} rounds; ms, medians; "
          f"composing took {seconds:.0f} s")  # fmt: skip
    for case, estimate in zip(cases, estimates, strict=True):
        report(case, estimate)


def report(case: Case, estimate: Mapping[str, Any]) -> None:
    """Prints one model's figures."""
    measured, total = median(case.cold.total), estimate["estimate"]
    warm = median(case.warm.total)
    parts = {each["quantity"]["name"]: each["estimate"] for each in estimate["parts"]}
    total_warm = total - parts["reading"] + parts["reading-again"]
    print(f"\n{case.source:22} {'measured':>9} {'composed':>9} {'error':>7}")
    _row("total, files on disk", measured, total)
    _row("total, files cached", warm, total_warm)
    for step, names in COUNTED.items():
        _row(f"  {step}", median(case.cold.steps[step]), sum(parts[each] for each in names))
    for each in ("reading", "reading-again", "parsing", "preparing"):
        print(f"    {each:18} {'':9} {parts[each]:9.1f}")


def _row(name: str, measured: float, estimate: float) -> None:
    print(f"{name:22} {measured:9.1f} {estimate:9.1f} {estimate / measured - 1:+7.1%}")


if __name__ == "__main__":
    main()

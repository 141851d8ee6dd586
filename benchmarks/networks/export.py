"""Writes the networks as ONNX files.

    python benchmarks/networks/export.py FOLDER [NAME...] [--public]

The networks are those of unlike domains, or the published architectures.

Shapes are fixed and weights are in the files. Each file's results are compared with PyTorch's. A
network that cannot be exported, or computes something else then, is named and has no file.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import logging
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import numpy as np
import onnxruntime
import torch

# As a script, this file lies in the package that it needs.
sys.path.insert(0, str(Path(__file__).parents[1]))
from networks import NETWORKS
from networks.public import ARCHITECTURES

_TOLERANCE = 1e-3
"""Largest difference of results, relative to the largest result."""


def write(factory: Callable[[], tuple[torch.nn.Module, tuple[torch.Tensor, ...]]], path: Path):
    """Writes a network to a file, which has its name only once it is checked.

    Raises:
        ValueError: If ONNX Runtime computes something else than PyTorch.
    """
    module, inputs = factory()
    part = path.with_suffix(".part")
    with (
        warnings.catch_warnings(),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        warnings.simplefilter("ignore")
        torch.onnx.export(module, inputs, part, dynamo=True, external_data=False, verbose=False)
    try:
        _check(module, inputs, part)
        part.rename(path)
    finally:
        part.unlink(missing_ok=True)


def _check(module: torch.nn.Module, inputs: tuple[torch.Tensor, ...], path: Path) -> None:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    feeds = {node.name: x.numpy() for node, x in zip(session.get_inputs(), inputs, strict=True)}
    with torch.inference_mode():
        found = module(*inputs)
    wanted = [found] if isinstance(found, torch.Tensor) else found
    for a, b in zip(session.run(None, feeds), wanted, strict=True):
        difference = float(np.abs(a - b.numpy()).max()) / max(float(b.abs().max()), 1e-6)
        if not difference < _TOLERANCE:
            raise ValueError(f"results differ by {difference:.1g}")


def main() -> int:
    """Writes the files, and tells how many networks have none."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--public", action="store_true", help="published architectures")
    given = parser.parse_intermixed_args()
    table = ARCHITECTURES if given.public else NETWORKS
    logging.disable(logging.ERROR)
    given.folder.mkdir(parents=True, exist_ok=True)
    failed = 0
    for name in given.names or table:
        begin = perf_counter()
        path = given.folder / f"{name}.onnx"
        try:
            write(table[name].factory, path)
        except Exception as error:  # noqa: BLE001 - exporters raise anything
            failed += 1
            cause = error.__cause__ or error
            reason = str(cause).strip().partition("\n")[0]
            print(f"{name}: {type(cause).__name__}: {reason}", flush=True)
            continue
        size, seconds = path.stat().st_size / 1e6, perf_counter() - begin
        print(f"{name}: {size:.1f} MB in {seconds:.0f} s", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main() > 0)

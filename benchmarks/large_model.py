"""Imports, splits and deduplicates a model whose external weights total 10 GB.

The weights are a sparse file, which has the size but occupies no disk space. The work runs in a new
process, whose peak memory and time are printed.

    python benchmarks/large_model.py
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from time import perf_counter

from dlbricks_decoders.onnx_files import SHAPES, write_decoder

_SHAPE = replace(SHAPES["8b"], blocks=7)
_DIMS = {"batch": 1, "sequence": 1, "past": 128}


def work(path: Path) -> dict[str, float]:
    """Imports, splits and deduplicates; figures of this process."""
    begin = perf_counter()
    from dlbricks_core.bricks import BrickSet
    from dlbricks_core.importers import LoadOptions
    from dlbricks_core.importers.host import canonical
    from dlbricks_core.importers.onnx import OnnxImporter

    imported = perf_counter()
    bricks = BrickSet.of([canonical(OnnxImporter().load(path), LoadOptions(dims=_DIMS)).model])
    return {
        "layers": bricks.layers,
        "unique_layers": bricks.unique_layers,
        "python_imports_s": imported - begin,
        "work_s": perf_counter() - imported,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000,
    }


def main() -> None:
    """Prints the figures."""
    if len(sys.argv) > 1:
        print(json.dumps(work(Path(sys.argv[1]))))
        return
    with tempfile.TemporaryDirectory() as name:
        path = write_decoder(Path(name), _SHAPE)
        nbytes = sum(each.stat().st_size for each in Path(name).iterdir())
        command = [sys.executable, __file__, str(path)]
        figures = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    print(f"weights: {nbytes / 1e9:.1f} GB external, {figures['layers']} layers, "
          f"{figures['unique_layers']} unique")  # fmt: skip
    print(f"import, split, deduplicate: {figures['work_s']:.2f} s "
          f"(and {figures['python_imports_s']:.2f} s to import Python modules)")  # fmt: skip
    print(f"peak memory of the process: {figures['peak_mb']:.0f} MB")


if __name__ == "__main__":
    main()

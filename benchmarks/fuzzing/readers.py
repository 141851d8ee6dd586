"""Readers of everything that DLBricks reads, with sound files that commands of today write."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import fuzz_programs
import fuzz_symbols
import mutate
import seeds
from fuzzing import grammar, messages
from fuzzing.drawn import Files, Reader
from fuzzing.mutations import (
    any_bytes,
    database_rows,
    export_lines,
    json_bytes,
    one_file,
    toml_text,
)
from fuzzing.processes import outcome, warm
from onnx import ModelProto

from dlbricks_core.cli.main import main
from dlbricks_core.errors import DLBricksError
from dlbricks_core.ir import read_model
from dlbricks_core.machine.system import current_system
from dlbricks_core.passes import normalize

ROOT = Path(__file__).parents[2]

_ALONE = {"onnx", "grammar", "mxnet", "pt2", "decoder", "prices"}
"""Readers whose files need no measurements."""

_STUDY = "study/study.json"


def readers(folder: Path, names: Sequence[str]) -> Iterator[Reader]:
    """The readers of these names, with sound files that are written to a folder."""
    measured = _measured(folder) if set(names) - _ALONE else {}
    for name in names:
        yield READERS[name](folder, measured)


def contents(folder: Path) -> dict[str, bytes]:
    """The files in a folder, by their relative names."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def _measured(folder: Path) -> dict[str, bytes]:
    """Files that a small model leaves when it runs: store, results, record, export and suite."""
    model = next(iter(seeds.seeds().values()))
    (folder / "m.onnx").write_bytes(model.SerializeToString())
    few = "--backend onnxruntime m.onnx --store store.sqlite --batch 2"
    lines = (
        f"estimate --measure {few} --runs 2 --composer sequential --json run.json",
        "results export export.jsonl.zst --store store.sqlite",
        "results record run.json --json spec.json",
        "suite write m.onnx --batch 2 -o suite",
        f"study {few} --runs 2 -G 1 -o study",
    )
    maker = Reader("maker", [], lambda files, _: files, lines, warm=("onnxruntime",))
    warm(maker)
    for line in lines:
        done = outcome(maker, line, folder)
        if done.status not in (0, 3):
            sys.exit(f"{line}: status {done.status}\n{done.said}")
    return contents(folder)


def _grammar(folder: Path, measured: Files) -> Reader:
    return Reader(
        "grammar",
        [{"m.onnx": b""}],
        one_file(grammar.with_another_part, "m.onnx"),
        (
            "show m.onnx",
            "show m.onnx --batch 2",
            "show repeats m.onnx --batch 2",
            "show graph m.onnx -o g.svg",
            "suite write m.onnx --batch 2 -o suite",
            "estimate m.onnx --batch 2 --backend onnxruntime --store none.sqlite --predictor none",
        ),
        imports=True,
        most=12,
        sound=False,
    )


def _onnx(folder: Path, measured: Files) -> Reader:
    mutator = mutate.Mutator(0, operators=True)
    sound = [model for model in map(_sized, mutator.models.values()) if _has_layers(model)]
    external = {"data.bin": seeds.EXTERNAL_DATA}
    bases = [{"m.onnx": each.SerializeToString(), **external} for each in sound]
    return Reader(
        "onnx",
        bases,
        one_file(mutator.mutated, "m.onnx"),
        (
            "show m.onnx",
            "show repeats m.onnx",
            "show graph m.onnx -o g.svg",
            "suite write m.onnx -o suite",
            "suite write m.onnx -G 1 -o suite",
            "estimate m.onnx --backend onnxruntime --store none.sqlite --predictor none",
        ),
        imports=True,
    )


def _sized(model: ModelProto) -> ModelProto:
    """The model with two for every open size of its inputs, so that commands need no options."""
    fixed = ModelProto()
    fixed.CopyFrom(model)
    for value in fixed.graph.input:
        for dim in value.type.tensor_type.shape.dim:
            if not dim.HasField("dim_value"):
                dim.dim_value = 2
    return fixed


def _has_layers(model: ModelProto) -> bool:
    """Whether commands read it: many cases of single operators leave nothing to time."""
    try:
        return bool(normalize(read_model(model, name="m")).layers)
    except DLBricksError:
        return False


def _mxnet(folder: Path, measured: Files) -> Reader:
    code = "import fuzz_symbols, pathlib; fuzz_symbols.save_weights(pathlib.Path('w.params'))"
    path = os.pathsep.join([*sys.path])
    subprocess.run(
        [sys.executable, "-c", code], cwd=folder, check=True, env={**os.environ, "PYTHONPATH": path}
    )
    names = "net-symbol.json", "net-0000.params"
    symbol = json.dumps(fuzz_symbols.GRAPH).encode()
    files = dict(zip(names, (symbol, (folder / "w.params").read_bytes()), strict=True))

    def mutation(files: Files, rng: random.Random) -> Files:
        json_first = rng.random() < 0.8
        name, change = (names[0], json_bytes) if json_first else (names[1], any_bytes)
        return {**files, name: change(files[name], rng)}

    return Reader(
        "mxnet",
        [files],
        mutation,
        (
            "show net-symbol.json --dim data=2x3x16x16",
            "show repeats net-symbol.json --dim data=2x3x16x16 --batch 3",
        ),
        warm=("dlbricks_mxnet.importer",),
        imports=True,
    )


def _program(folder: Path, measured: Files) -> Reader:
    code = (
        "import fuzz_programs, json, sys; entries = fuzz_programs.sample();"
        "print(json.dumps({k: v.hex() for k, v in entries.items()}))"
    )
    path = os.pathsep.join(sys.path)
    done = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    entries = {k: bytes.fromhex(v) for k, v in json.loads(done.stdout.splitlines()[-1]).items()}

    def mutation(files: Files, rng: random.Random) -> Files:
        at = rng.choice((fuzz_programs.PROGRAM,) * 3 + (fuzz_programs.WEIGHTS,))
        return {**files, at: json_bytes(files[at], rng)}

    return Reader(
        "pt2", [entries], mutation, ("show net.pt2 --batch 2",), warm=("torch",), imports=True
    )


def _decoder(folder: Path, measured: Files) -> Reader:
    shipped = ROOT / "plugins" / "decoders" / "src" / "dlbricks_decoders" / "configurations"
    bases = [{"config.json": path.read_bytes()} for path in sorted(shipped.glob("*.json"))]
    sizes = "--batch 1 --dim sequence=8 --dim past=4"
    return Reader(
        "decoder",
        bases,
        one_file(json_bytes),
        (
            f"show llm:config.json {sizes}",
            f"show repeats llm:config.json {sizes}",
        ),
        imports=True,
    )


def _suite(folder: Path, measured: Files) -> Reader:
    files = {k: v for k, v in measured.items() if k.startswith("suite/")}
    mutator = mutate.Mutator(0)

    def change(name: str, content: bytes, rng: random.Random) -> bytes:
        if name.endswith(".json"):
            return json_bytes(content, rng)
        return (mutator.mutated if name.endswith(".onnx") else any_bytes)(content, rng)

    def mutation(files: Files, rng: random.Random) -> Files:
        name = rng.choice(sorted(files))
        return {**files, name: change(name, files[name], rng)}

    return Reader(
        "suite",
        [files],
        mutation,
        ("suite time suite --backend onnxruntime --runs 1 --store s.sqlite",),
        warm=("onnxruntime",),
    )


def _export(folder: Path, measured: Files) -> Reader:
    files = {"export.jsonl.zst": measured["export.jsonl.zst"]}
    return Reader(
        "export",
        [files],
        one_file(export_lines),
        ("results import export.jsonl.zst --store s.sqlite",),
    )


def _record(folder: Path, measured: Files) -> Reader:
    files = {name: measured[name] for name in ("run.json", "spec.json", "m.onnx")}
    return Reader(
        "record",
        [files],
        one_file(_few_runs, "run.json", "spec.json"),
        (
            "results record run.json",
            "results repeat spec.json",
            "results repeat run.json",
        ),
        warm=("onnxruntime",),
        shares=dict.fromkeys(("results repeat spec.json", "results repeat run.json"), 0.1),
    )


def _few_runs(content: bytes, rng: random.Random) -> bytes:
    """A damaged record that asks for few runs: it is no defect to repeat as many as it says."""
    return re.sub(rb'"runs": \d{2,}', b'"runs": 9', json_bytes(content, rng))


def _database(folder: Path, measured: Files) -> Reader:
    files = {name: measured[name] for name in ("store.sqlite", "m.onnx")}
    return Reader(
        "database",
        [files],
        one_file(database_rows, "store.sqlite"),
        (
            "results info --store store.sqlite",
            "machine list --store store.sqlite",
            "results export e.jsonl.zst --store store.sqlite",
            "results merge store.sqlite --store s.sqlite",
            "estimate m.onnx --batch 2 --backend onnxruntime --store store.sqlite",
            "results pages --store store.sqlite -o page",
        ),
        warm=("onnxruntime",),
    )


def _prices(folder: Path, measured: Files) -> Reader:
    own = current_system().fingerprint
    model = next(iter(seeds.seeds().values()))
    base = {
        "light_resnet50.onnx": model.SerializeToString(),
        # Without a price of this machine, no sound file would be read.
        "prices.toml": f'currency = "EUR"\n[per_hour]\n"{own}" = 0.17\nzen9 = 1\n'.encode(),
        "accuracies.toml": b"[accuracy]\nlight_resnet50 = 76.1\n",
    }
    return Reader(
        "prices",
        [base],
        one_file(toml_text, "prices.toml", "accuracies.toml"),
        (
            "advise light_resnet50.onnx --batch 2 --prices prices.toml --store none.sqlite",
            "advise light_resnet50.onnx --batch 2 --accuracies accuracies.toml --store none.sqlite",
        ),
        imports=True,
    )


def _results(folder: Path, measured: Files) -> Reader:
    files = {
        name: measured[at]
        for name, at in (("a.json", "run.json"), ("b.json", "run.json"), ("s.json", _STUDY))
    }
    return Reader(
        "json",
        [files],
        one_file(json_bytes),
        (
            "results compare a.json b.json",
            "results compare b.json a.json --format csv",
            "study --from s.json -o report",
        ),
        shares={"study --from s.json -o report": 0.02},  # it draws plots for seconds
        entry=_compared,
    )


def _compared(arguments: list[str]) -> None:
    """Runs a command whose status 1 is an answer: something became slower."""
    try:
        main(arguments)
    except SystemExit as end:
        sys.exit(0 if end.code == 1 and arguments[:2] == ["results", "compare"] else end.code)


READERS: Mapping[str, Callable[[Path, Files], Reader]] = {
    "onnx": _onnx,
    "mxnet": _mxnet,
    "pt2": _program,
    "decoder": _decoder,
    "suite": _suite,
    "export": _export,
    "record": _record,
    "database": _database,
    "grammar": _grammar,
    "json": _results,
    "prices": _prices,
    "fleet": messages.reader,
}

"""Estimates of language models beside the loop of an engine, in turn.

    pip install transformers onnxruntime-genai
    python benchmarks/engines.py transformers llm:gpt2 llm:qwen3-0.6b --threads 2 --rounds 3
    python benchmarks/engines.py onnxruntime-genai llm:smollm2-135m --dtype int4 --rounds 5

The loop of transformers is that of PyTorch's users. Onnxruntime-genai runs the file that its
builder writes from weights that are drawn once. Each round runs the engine's script in
benchmarks/plain and then `dlbricks estimate --measure` with a store of its own, so that both meet
the same machine. Differences are of medians over the rounds. Figures count on a quiet machine
alone. `--blocks 2 --words 512` cuts models down, to see whether it works.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

HERE = Path(__file__).parent
SHIPPED = HERE.parent / "plugins/decoders/src/dlbricks_decoders/configurations"

BUILDER_TYPES = {"float32": "fp32", "int4": "int4"}
"""The builder's name of each type."""

BARS = {"TPOT": 0.05, "TTFT": 0.10}
"""Largest relative difference of each quantity that counts as agreement."""


@dataclass(frozen=True)
class Engine:
    """An engine that generates text.

    Attributes:
        script: Its plain script.
        backend: The backend whose estimates are for it.
        written: Whether it reads files of a builder instead of configurations.
    """

    script: str
    backend: str
    written: bool


ENGINES = {
    "transformers": Engine("run_transformers.py", "pytorch", written=False),
    "onnxruntime-genai": Engine("run_onnxruntime_genai.py", "onnxruntime", written=True),
}


@dataclass(frozen=True)
class Figures:
    """Milliseconds of one round: of the engine, and of the estimate with its 90% interval."""

    engine: float
    estimate: float
    low: float
    high: float


def main() -> None:
    """Prints a row for each model and quantity, and the shares within the bars."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("engine", choices=ENGINES)
    parser.add_argument("models", nargs="+", help="llm:NAME or llm:PATH/config.json")
    parser.add_argument("--dtype", choices=BUILDER_TYPES, default="float32")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--prompt", type=int, default=128)
    parser.add_argument("--generate", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--blocks", type=int, help="most blocks of a model")
    parser.add_argument("--words", type=int, help="most words of its vocabulary")
    given = parser.parse_args()
    engine = ENGINES[given.engine]
    print(f"{'model':<22} quantity  estimate (90%)              {given.engine:>17}   difference")
    compared = {name: rounds(name, engine, given) for name in given.models}
    for quantity, bar in BARS.items():
        pairs = [each[quantity] for each in compared.values()]
        close = sum(abs(pair.estimate / pair.engine - 1) <= bar for pair in pairs)
        held = sum(pair.low <= pair.engine <= pair.high for pair in pairs)
        print(f"{quantity} within {bar:.0%}: {close} of {len(pairs)}; in the interval: {held}")


def rounds(name: str, engine: Engine, given: argparse.Namespace) -> dict[str, Figures]:
    """Medians of a model's figures over the rounds, by quantity."""
    with TemporaryDirectory() as folder:
        config = Path(folder) / "config.json"
        config.write_text(json.dumps(configuration(name, given)))
        source = built(config, given.dtype) if engine.written else config
        found = [(theirs(engine, source, given), ours(engine, config, given))
                 for _ in range(given.rounds)]  # fmt: skip
    figures = {}
    for quantity in BARS:
        key = quantity.lower()
        loop = median(script[f"{key}_ms"] for script, _ in found)
        parts = [(answer[key]["estimate"], *answer[key]["interval"]) for _, answer in found]
        figure = Figures(loop, *(median(values) for values in zip(*parts, strict=True)))
        figures[quantity] = figure
        interval = f"({figure.low:.1f} to {figure.high:.1f})"
        print(f"{name.removeprefix('llm:'):<22} {quantity:<8} {figure.estimate:8.2f} {interval:<18}"
              f" {loop:17.2f}   {figure.estimate / loop - 1:+10.1%}", flush=True)  # fmt: skip
    return figures


def configuration(name: str, given: argparse.Namespace) -> dict[str, Any]:
    """The configuration of a model, cut down as asked."""
    own = name.removeprefix("llm:")
    path = Path(own) if own.endswith(".json") else SHIPPED / f"{own}.json"
    config: dict[str, Any] = json.loads(path.read_text())
    if given.blocks:
        config["num_hidden_layers"] = min(config["num_hidden_layers"], given.blocks)
        if config.get("layer_types"):
            config["layer_types"] = config["layer_types"][: given.blocks]
    if given.words:
        config["vocab_size"] = min(config["vocab_size"], given.words)
    return config


def built(config: Path, dtype: str) -> Path:
    """Folder with the file that the builder writes from drawn weights of a configuration."""
    from tokenizers import Tokenizer, models
    from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast

    source, written = config.parent / "model", config.parent / "written"
    fields = json.loads(config.read_text())
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**fields))
    model.config.architectures = [type(model).__name__]
    model.save_pretrained(source)
    words = {f"w{number}": number for number in range(fields["vocab_size"])}
    plain = Tokenizer(models.WordLevel(words, unk_token="w0"))
    special = {f"{kind}_token": f"w{number}" for number, kind in enumerate(("unk", "bos", "eos"))}
    PreTrainedTokenizerFast(tokenizer_object=plain, **special).save_pretrained(source)
    command = [
        *(sys.executable, "-m", "onnxruntime_genai.models.builder", "-i", source),
        *("-o", written, "-p", BUILDER_TYPES[dtype], "-e", "cpu", "-c", config.parent / "cache"),
    ]
    subprocess.run(command, check=True, capture_output=True)
    return written


def sizes(given: argparse.Namespace) -> list[str]:
    """Arguments that both programs have."""
    return ["--threads", str(given.threads), "--prompt", str(given.prompt),
            "--generate", str(given.generate)]  # fmt: skip


def theirs(engine: Engine, source: Path, given: argparse.Namespace) -> dict[str, Any]:
    """Output of the engine's script."""
    return output([sys.executable, str(HERE / "plain" / engine.script), str(source), *sizes(given)])


def ours(engine: Engine, config: Path, given: argparse.Namespace) -> dict[str, Any]:
    """Answer of the estimate."""
    store = config.parent / "store.sqlite"
    store.unlink(missing_ok=True)
    command = ["dlbricks", "estimate", f"llm:{config}", "--backend", engine.backend, "--measure",
               *sizes(given), "--store", str(store), "--json", "-"]  # fmt: skip
    if given.dtype != "float32":
        command += ["--dtype", given.dtype]
    answer: dict[str, Any]
    (answer,) = output(command)["answers"]
    return answer


def output(command: Sequence[str]) -> dict[str, Any]:
    """JSON object that a command prints."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        ended = f"{' '.join(command)} ended with status {done.returncode}"
        raise SystemExit(f"{ended}\n{done.stdout}{done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


if __name__ == "__main__":
    main()

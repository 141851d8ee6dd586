"""Estimates of language models beside onnxruntime-genai's own loop, in turn.

    pip install onnxruntime-genai transformers
    python benchmarks/genai.py llm:smollm2-135m llm:qwen3-0.6b --dtype int4 --threads 1 --rounds 5

For each model, weights are drawn once, and onnxruntime-genai's builder writes its file. Each round
runs benchmarks/plain/run_onnxruntime_genai.py and then `dlbricks estimate --measure` with a store
of its own, so that both meet the same machine. Differences are of medians over the rounds. Figures
count on a quiet machine alone. `--blocks 2 --words 512` cuts models down, to see whether it works.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

HERE = Path(__file__).parent
SHIPPED = HERE.parent / "plugins/decoders/src/dlbricks_decoders/configurations"

BUILDER_TYPES = {"float32": "fp32", "int4": "int4"}
"""The builder's name of each type."""


def main() -> None:
    """Prints a row for each model, and the shares within the bars."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("models", nargs="+", help="llm:NAME or llm:PATH/config.json")
    parser.add_argument("--dtype", choices=BUILDER_TYPES, default="float32")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--prompt", type=int, default=128)
    parser.add_argument("--generate", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--blocks", type=int, help="most blocks of a model")
    parser.add_argument("--words", type=int, help="most words of its vocabulary")
    given = parser.parse_args()
    print("model            quantity   estimate   onnxruntime-genai   difference")
    rows = [row for name in given.models for row in compared(name, given)]
    for quantity, bar in (("TPOT", 0.05), ("TTFT", 0.10)):
        off = [abs(ratio - 1) for kind, ratio in rows if kind == quantity]
        print(f"{quantity} within {bar:.0%}: {sum(each <= bar for each in off)} of {len(off)}")


def compared(name: str, given: argparse.Namespace) -> list[tuple[str, float]]:
    """Ratios of estimates to what the loop takes, by quantity."""
    with TemporaryDirectory() as folder:
        source, written = Path(folder) / "model", Path(folder) / "written"
        config = drawn(configuration(name, given), source)
        command = [
            *(sys.executable, "-m", "onnxruntime_genai.models.builder", "-i", source),
            *("-o", written, "-p", BUILDER_TYPES[given.dtype], "-e", "cpu"),
            *("-c", Path(folder) / "cache"),
        ]
        subprocess.run(command, check=True, capture_output=True)
        rounds = [(theirs(written, given), ours(config, Path(folder), given))
                  for _ in range(given.rounds)]  # fmt: skip
    found = []
    for quantity in ("TTFT", "TPOT"):
        loop, estimate = (median(each[side][quantity] for each in rounds) for side in (0, 1))
        found.append((quantity, estimate / loop))
        print(f"{name:<16} {quantity:<10} {estimate:8.2f} ms   {loop:14.2f} ms   "
              f"{estimate / loop - 1:+10.1%}", flush=True)  # fmt: skip
    return found


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


def drawn(config: dict[str, Any], folder: Path) -> Path:
    """A folder with drawn weights of a configuration, as transformers saves them; its file."""
    from tokenizers import Tokenizer, models
    from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast

    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**config))
    model.config.architectures = [type(model).__name__]
    model.save_pretrained(folder)
    words = {f"w{number}": number for number in range(config["vocab_size"])}
    plain = Tokenizer(models.WordLevel(words, unk_token="w0"))
    special = {f"{kind}_token": f"w{number}" for number, kind in enumerate(("unk", "bos", "eos"))}
    PreTrainedTokenizerFast(tokenizer_object=plain, **special).save_pretrained(folder)
    path = folder.parent / "config.json"
    path.write_text(json.dumps(config))
    return path


def sizes(given: argparse.Namespace) -> list[str]:
    """Arguments that both programs have."""
    return ["--threads", str(given.threads), "--prompt", str(given.prompt),
            "--generate", str(given.generate)]  # fmt: skip


def theirs(written: Path, given: argparse.Namespace) -> dict[str, float]:
    """Milliseconds of the loop of onnxruntime-genai, by quantity."""
    command = [sys.executable, HERE / "plain/run_onnxruntime_genai.py", written, *sizes(given)]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return {"TTFT": found["ttft_ms"], "TPOT": found["tpot_ms"]}


def ours(config: Path, folder: Path, given: argparse.Namespace) -> dict[str, float]:
    """Milliseconds of the estimate, by quantity."""
    store = folder / "store.sqlite"
    store.unlink(missing_ok=True)
    command = ["dlbricks", "estimate", f"llm:{config}", "--backend", "onnxruntime", "--measure",
               *sizes(given), "--store", str(store), "--json", "-"]  # fmt: skip
    if given.dtype != "float32":
        command += ["--dtype", given.dtype]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    (answer,) = json.loads(done.stdout)["answers"]
    return {name.upper(): answer[name]["estimate"] for name in ("ttft", "tpot")}


if __name__ == "__main__":
    main()

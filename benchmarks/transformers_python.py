"""Time of the Python of transformers' modules beside the operators, over tiny models of families.

    python benchmarks/transformers_python.py [--write] [FAMILY...]

A model of 16 elements computes next to nothing, so its latency is that of Python and of the calls
of operators. For each family and for two numbers of blocks, a token of transformers' loop and the
same token of the layers that DLBricks times run in turn. The difference of their processor times is
in units of a call of a Python method, which is timed beside it.

Weights of a model of usual size displace Python's objects from the caches, so its Python takes
longer. The factor comes from published configurations of 0.1 to 0.3 billion parameters (two models
of up to 1 GB each are in memory). `--write` keeps the fit.

It needs transformers, and the configurations of plugins/decoders/tests.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import thread_time
from typing import Any

import numpy as np
import torch
from dlbricks_decoders.build import build
from dlbricks_decoders.families import decoder_of
from dlbricks_pytorch.timer import PytorchTimer
from dlbricks_sizes.machine_speed import call_s
from transformers import AutoConfig, AutoModelForCausalLM

from dlbricks_core.backends import BackendSettings
from dlbricks_core.machine.speed import generation_of
from dlbricks_core.machine.system import current_system
from dlbricks_core.passes import normalize
from dlbricks_core.values import materialize

DECODERS = Path(__file__).parents[1] / "plugins/decoders"
CONFIGURATIONS = DECODERS / "tests/configurations"
SHIPPED = DECODERS / "src/dlbricks_decoders/configurations"

FAMILIES = ("llama", "qwen3", "gemma3_text", "gpt2", "olmo2", "phi3", "stablelm", "gpt_neox",
            "granite", "smollm3")  # fmt: skip

PUBLISHED = ("smollm2-135m", "gpt2", "gemma-3-270m", "pythia-160m", "opt-125m")
"""Configurations that the factor of cold caches is fitted to."""

BLOCKS, DEPTH, ROUNDS, TOKENS = (2, 10), 16, 15, 8
"""Numbers of blocks, tokens in the cache, rounds, and tokens of a round."""


def main() -> None:
    """Prints a row for each family, and the fit."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("families", nargs="*", default=FAMILIES)
    parser.add_argument("--write", action="store_true", help="keep the fitted numbers")
    given = parser.parse_args()
    torch.set_num_threads(1)
    print("model                  transformers   layers   difference   in calls")
    rows = [
        (blocks, _calls(f"{family}, {blocks}", _tiny(family, blocks)))
        for family in given.families
        for blocks in BLOCKS
    ]
    numbers = np.array(rows)
    terms = np.stack([np.ones(len(rows)), numbers[:, 0]], axis=1)
    # Relative to the count, so that few blocks weigh as much as many.
    scale = 1 / numbers[:, 1]
    (token, block), *_ = np.linalg.lstsq(terms * scale[:, None], numbers[:, 1] * scale, rcond=None)
    rest = terms @ np.array([token, block]) / numbers[:, 1] - 1
    spread = float(np.sqrt(np.mean(rest**2)))
    print(f"{token:.0f} calls for a token, {block:.0f} for a block; ±{spread:.0%}")
    factors = []
    for name in PUBLISHED:
        values = json.loads((SHIPPED / f"{name}.json").read_text())
        blocks = len(decoder_of(values, name).blocks)
        factors.append(_calls(name, values) / (token + block * blocks))
    cold = float(np.mean(factors))
    print(f"times {cold:.2f} where caches are cold; ±{np.std(factors) / cold:.0%}")
    if given.write:
        sys.path.insert(0, str(Path(__file__).parent / "predictor"))
        import refit
        from dlbricks_pytorch import engine

        here = current_system()
        published = generation_of(here.vendor, here.family, here.model)
        work = 1e9 * call_s() * published.ghz * published.instructions
        spread = max(spread, float(np.std(factors)) / cold)
        values = {"token_calls": round(token), "block_calls": round(block), "cold": round(cold, 2),
                  "spread": round(spread, 3), "call_work": round(work)}  # fmt: skip
        refit.write(engine, "transformers", values)


def _tiny(family: str, blocks: int) -> dict[str, Any]:
    """A configuration with another number of blocks."""
    values: dict[str, Any] = json.loads((CONFIGURATIONS / f"{family}.json").read_text())
    layers = next(name for name in ("num_hidden_layers", "n_layer") if name in values)
    values.pop("layer_types", None)
    return {**values, layers: blocks}


def _calls(name: str, values: dict[str, Any]) -> float:
    """Calls of a Python method that a token of transformers costs beyond that of the layers."""
    theirs, ours = _theirs(values), _ours(values)
    differences, firsts, seconds, calls = [], [], [], []
    for _ in range(ROUNDS):
        firsts.append(theirs())
        seconds.append(ours())
        calls.append(call_s())
        differences.append((firsts[-1] - seconds[-1]) / calls[-1])
    found = median(differences)
    one, other = 1e3 * median(firsts), 1e3 * median(seconds)
    times = f"{one:10.3f} ms {other:7.3f} ms {one - other:8.3f} ms"
    print(f"{name:20} {times} {found:9.0f}", flush=True)
    return found


def _theirs(values: dict[str, Any]) -> Callable[[], float]:
    """Seconds of a token in transformers' loop."""
    config = AutoConfig.for_model(**values)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    prompt = torch.randint(config.get_text_config().vocab_size, (1, DEPTH))

    def run() -> float:
        times = []
        with torch.inference_mode():
            ids, cache = prompt, None
            for _ in range(TOKENS + 1):
                begin = thread_time()
                out = model(ids, past_key_values=cache, use_cache=True, logits_to_keep=1)
                cache, ids = out.past_key_values, out.logits[:, -1:].argmax(-1)
                times.append(thread_time() - begin)
        return median(times[1:])

    return run


def _ours(values: dict[str, Any]) -> Callable[[], float]:
    """Seconds of a token of the layers that DLBricks times."""
    raw = build(decoder_of(values, "c"), "m", "")
    model = normalize(raw, batch=1, dims={"sequence": 1, "past": DEPTH})
    timer = PytorchTimer(BackendSettings(threads=1))
    loaded = timer.load(materialize(model, 0))

    def run() -> float:
        times = []
        for _ in range(TOKENS):
            begin = thread_time()
            timer.run(loaded)
            times.append(thread_time() - begin)
            timer.release(loaded)
        return median(times)

    return run


if __name__ == "__main__":
    main()

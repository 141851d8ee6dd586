"""Estimates of llama.cpp beside runs of whole files, in processor time: for a machine that is busy.

    python benchmarks/llamacpp.py qwen3-0.6b llama-3.2-1b --dtypes q4_k_m,q8_0,f16

A whole file of drawn weights and the files of its bricks lie in one process. In each round, each of
them runs once, with one thread: a prompt into an empty cache, or a token after some others, with
the logits of the last token, as llama-bench asks for them. Processor time leaves out what others
run meanwhile, but not that they use the caches and the memory. Printed are medians over the rounds:
the sum over bricks, the whole, and their ratio.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from statistics import median
from time import process_time
from typing import Any

from dlbricks_llamacpp.backend import LlamaBackend
from dlbricks_llamacpp.rewrite import smallest

from dlbricks_core.backends import BackendSettings, Network
from dlbricks_core.backends.host import CALLS
from dlbricks_core.bricks import BrickSet
from dlbricks_core.importers.host import canonical
from dlbricks_core.importers.options import LoadOptions
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.measure.worker import start_of_a_line
from dlbricks_core.plugins import find

BACKEND = LlamaBackend()


@dataclass(frozen=True)
class Case:
    """A run: so many new tokens after so many in the cache."""

    tokens: int
    past: int

    def __str__(self) -> str:
        return f"prompt of {self.tokens}" if self.tokens > 1 else f"token after {self.past}"


def chain_of(name: str, case: Case, settings: BackendSettings) -> CanonicalModel:
    """The chain of blocks that stands for a model at a size."""
    raw = find("models", "llm").loaded().load(name)
    sizes = LoadOptions(batch=1, dims={"sequence": case.tokens, "past": case.past})
    return BACKEND.rewrite(canonical(raw, sizes, raw.source).model, settings, 0)


def medians_ms(timer: Any, models: Mapping[str, CanonicalModel], rounds: int) -> dict[str, float]:
    """Median processor time of each network, in milliseconds; the networks run in turns."""
    loaded = {key: timer.load(Network(model, {}, {})) for key, model in models.items()}
    wake = timer.load(Network(smallest(1), {}, {}))
    taken: dict[str, list[float]] = {key: [] for key in models}
    for number in range(-1, rounds):
        for key in sorted(loaded, reverse=bool(number % 2)):
            timer.run(wake)
            begin = process_time()
            timer.run(loaded[key])
            timer.synchronize(loaded[key])
            if number >= 0:
                taken[key].append(1e3 * (process_time() - begin))
    for each in (*loaded.values(), wake):
        timer.unload(each)
    return {key: median(each) for key, each in taken.items()}


def compared(name: str, dtype: str, case: Case, rounds: int) -> dict[str, Any]:
    """The sum over bricks beside the whole file."""
    settings = BackendSettings(1, {"dtype": dtype, "attention": "auto"})
    chain = chain_of(name, case, settings)
    cut = BrickSet.of([chain], 128, "segments")
    (found,) = cut.models
    models = {signature: brick.model for signature, brick in cut.bricks.items()}
    models |= {"whole": chain}
    models |= {key: smallest(layers) for key, layers in CALLS.items()}
    taken = medians_ms(BACKEND.timer(settings), models, rounds)
    call = start_of_a_line([taken[key] for key in CALLS])
    bricks = sum(count * max(taken[s] - call, 0.0) for s, count in found.counts.items())
    result = {"model": name, "dtype": dtype, "run": str(case), "bricks_ms": bricks + call}
    result |= {"whole_ms": taken["whole"], "ratio": (bricks + call) / taken["whole"]}
    return result


def main() -> None:
    """Prints a line of JSON for each model, type and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--dtypes", default="q4_k_m,q8_0,f16")
    parser.add_argument("--prompt", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=16)
    given = parser.parse_args()
    prompt = Case(given.prompt, 0)
    for name in given.models:
        for dtype in given.dtypes.split(","):
            for case, rounds in ((replace(prompt, tokens=1, past=given.prompt), given.rounds),
                                 (prompt, max(3, given.rounds // 4))):  # fmt: skip
                print(json.dumps(compared(name, dtype, case, rounds)), flush=True)


if __name__ == "__main__":
    main()

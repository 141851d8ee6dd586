"""Estimates of llama.cpp beside runs of whole files, in processor time: for a machine that is busy.

    python benchmarks/llamacpp.py qwen3-0.6b llama-3.2-1b --dtypes q4_k_m,q8_0,f16

A whole file of drawn weights and the files of its bricks lie in one process. They run in
turns, with one thread: a prompt into an empty cache, or a token after some others, with
the logits of the last token, as llama-bench asks for them. Processor time leaves out what others
run meanwhile, but not that they use the caches and the memory. Printed are medians over the rounds:
the sum over bricks, the whole, and the ratio of both in one round, with its quartiles.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median, quantiles
from time import process_time
from typing import Any

from dlbricks_llamacpp.backend import LlamaBackend
from dlbricks_llamacpp.rewrite import smallest

from dlbricks_core.backends import BackendSettings, Network
from dlbricks_core.backends.host import CALLS, is_copied
from dlbricks_core.bricks import BrickSet
from dlbricks_core.importers.base import LoadOptions
from dlbricks_core.importers.host import canonical
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.machine.system import largest_cache
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


PASSES = 2
"""Runs of each network in a phase, after one that does not count."""


class Primed:
    """A network, and what runs before each of its runs, as in workers of DLBricks.

    Args:
        timer: The timer.
        model: The network.
    """

    def __init__(self, timer: Any, model: CanonicalModel) -> None:
        self._timer = timer
        self._loaded = timer.load(Network(model, {}, {}))
        copied = is_copied(model, largest_cache())
        self._twin = timer.load(Network(model, {}, {})) if copied else self._loaded

    def run_ms(self, wake: Any) -> float:
        """Processor time of a run in milliseconds."""
        for each in (self._twin, wake):
            self._timer.run(each)
            self._timer.synchronize(each)
        begin = process_time()
        self._timer.run(self._loaded)
        self._timer.synchronize(self._loaded)
        return 1e3 * (process_time() - begin)

    def unload(self) -> None:
        """Frees the memory."""
        for each in {id(each): each for each in (self._loaded, self._twin)}.values():
            self._timer.unload(each)


def medians_ms(
    timer: Any, phases: Sequence[Mapping[str, CanonicalModel]], rounds: int
) -> list[dict[str, float]]:
    """Median processor time of each network in each round, in milliseconds.

    Phases alternate, since whole files and bricks beside each other would have colder page tables
    than each has alone.
    """
    opened = [{key: Primed(timer, model) for key, model in each.items()} for each in phases]
    wake = timer.load(Network(smallest(1), {}, {}))
    found = []
    for _ in range(rounds):
        taken: dict[str, list[float]] = {key: [] for phase in phases for key in phase}
        for phase in opened:
            for number in range(-1, PASSES):
                for key in sorted(phase, reverse=bool(number % 2)):
                    ms = phase[key].run_ms(wake)
                    if number >= 0:
                        taken[key].append(ms)
        found.append({key: median(each) for key, each in taken.items()})
    timer.unload(wake)
    for each in (each for phase in opened for each in phase.values()):
        each.unload()
    return found


def compared(name: str, dtype: str, case: Case, rounds: int) -> dict[str, Any]:
    """The sum over bricks beside the whole file."""
    settings = BackendSettings(1, {"dtype": dtype, "attention": "auto"})
    chain = chain_of(name, case, settings)
    cut = BrickSet.of([chain], 128, "segments")
    (found,) = cut.models
    models = {signature: brick.model for signature, brick in cut.bricks.items()}
    models |= {key: smallest(layers) for key, layers in CALLS.items()}
    rows = medians_ms(BACKEND.timer(settings), [{"whole": chain}, models], rounds)
    sums = [composed_ms(found.counts, row) for row in rows]
    ratios = [each / row["whole"] for each, row in zip(sums, rows, strict=True)]
    low, middle, high = quantiles(ratios, n=4)
    return {
        "model": name,
        "dtype": dtype,
        "run": str(case),
        "bricks_ms": round(median(sums), 2),
        "whole_ms": round(median(row["whole"] for row in rows), 2),
        "ratio": round(middle, 3),
        "quartiles": [round(low, 3), round(high, 3)],
    }


def composed_ms(counts: Mapping[str, int], taken: Mapping[str, float]) -> float:
    """The sum over bricks, with one call."""
    call = start_of_a_line([taken[key] for key in CALLS])
    return call + sum(count * max(taken[key] - call, 0.0) for key, count in counts.items())


def main() -> None:
    """Prints a line of JSON for each model, type and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--dtypes", default="q4_k_m,q8_0,f16")
    parser.add_argument("--only-tokens", action="store_true", help="leave prompts out")
    parser.add_argument("--prompt", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=12)
    given = parser.parse_args()
    prompt = Case(given.prompt, 0)
    for name in given.models:
        for dtype in given.dtypes.split(","):
            for case, rounds in ((replace(prompt, tokens=1, past=given.prompt), given.rounds),
                                 (prompt, 3)):  # fmt: skip
                if given.only_tokens and case.tokens > 1:
                    continue
                print(json.dumps(compared(name, dtype, case, rounds)), flush=True)


if __name__ == "__main__":
    main()

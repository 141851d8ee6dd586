"""Page faults of prompts in the loop of transformers, beside what the allocator's rules say.

    python benchmarks/prompt_faults.py [--write] [--prompt 128] [CONFIGURATION...]

Each configuration runs in a process of its own with one thread and glibc's defaults: five prompts,
each with eight tokens behind it. Page faults are counted around each call, so a busy machine does
not matter. The first prompt is left out. The part of the pages that the rules let a prompt give
back and take again (`dlbricks_pytorch.trimming`) is fitted over all configurations; `--write` keeps
it. Gigabytes of memory are needed for models of half a billion parameters. It needs transformers.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from statistics import mean, median

import numpy as np

SHIPPED = Path(__file__).parents[1] / "plugins/decoders/src/dlbricks_decoders/configurations"

CONFIGURATIONS = ("gpt2", "gemma-3-270m", "smollm2-135m", "opt-125m", "pythia-160m",
                  "qwen2.5-0.5b", "smollm2-360m", "ernie-4.5-0.3b")  # fmt: skip

PROMPTS, TOKENS = 5, 8


def main() -> None:
    """Prints a row for each configuration, and the part."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", default=CONFIGURATIONS)
    parser.add_argument("--prompt", type=int, default=128)
    parser.add_argument("--one", action="store_true", help="count in this process")
    parser.add_argument("--write", action="store_true", help="keep the fitted numbers")
    given = parser.parse_args()
    if given.one:
        print(json.dumps(counted(given.names[0], given.prompt)))
        return
    print("model                  by the rules   counted")
    rows = []
    for name in given.names:
        command = [sys.executable, __file__, "--one", name, "--prompt", str(given.prompt)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        found, rules = json.loads(done.stdout.splitlines()[-1]), retaken(name, given.prompt)
        print(f"{name:22} {rules:12.0f}   {found}", flush=True)
        rows.append((rules, median(found[1:])))
    by_rules, counts = np.array(rows).T
    # Pages count, not models: a model with few of them is no matter.
    part = float(counts.sum() / by_rules.sum())
    spread = float(np.sqrt(mean((counts - part * by_rules) ** 2)) / mean(part * by_rules))
    print(f"{part:.2f} of the pages by the rules; ±{spread:.0%}")
    if given.write:
        sys.path.insert(0, str(Path(__file__).parent / "predictor"))
        import refit
        from dlbricks_pytorch import engine

        values = {"part": round(part, 2), "spread": round(spread, 2)}
        refit.write(engine, "page_faults", values)


def retaken(name: str, tokens: int) -> float:
    """Pages of a prompt by the rules of the allocator."""
    from dlbricks_decoders.build import build
    from dlbricks_decoders.families import decoder_of
    from dlbricks_pytorch.trimming import retaken_pages

    from dlbricks_core.passes import normalize

    values = json.loads((SHIPPED / f"{name}.json").read_text())
    raw = build(decoder_of(values, name), name, "")
    return retaken_pages(normalize(raw, batch=1, dims={"sequence": tokens, "past": 0}))


def counted(name: str, tokens: int) -> list[int]:
    """Page faults of each prompt in transformers' loop."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.set_num_threads(1)
    config = AutoConfig.for_model(**json.loads((SHIPPED / f"{name}.json").read_text()))
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    prompt = torch.randint(config.get_text_config().vocab_size, (1, tokens))
    found = []
    with torch.inference_mode():
        for _ in range(PROMPTS):
            ids, cache, firsts = prompt, None, []
            for _ in range(TOKENS):
                before = getrusage(RUSAGE_SELF).ru_minflt
                out = model(ids, past_key_values=cache, use_cache=True, logits_to_keep=1)
                cache, ids = out.past_key_values, out.logits[:, -1:].argmax(-1)
                firsts.append(getrusage(RUSAGE_SELF).ru_minflt - before)
            found.append(firsts[0])
    return found


if __name__ == "__main__":
    main()

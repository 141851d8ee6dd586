"""TTFT and TPOT of language models, as a user of transformers measures them.

    python benchmarks/plain/run_transformers.py CONFIG.json...

Each file is a configuration that a model ships with. Weights are random.
"""

import argparse
import json
from pathlib import Path
from statistics import median
from time import perf_counter

import torch
from transformers import AutoConfig, AutoModelForCausalLM

parser = argparse.ArgumentParser()
parser.add_argument("configurations", nargs="+", type=Path)
parser.add_argument("--threads", type=int, default=1)
parser.add_argument("--prompt", type=int, default=128)
parser.add_argument("--generate", type=int, default=32)
parser.add_argument("--runs", type=int, default=5)
parser.add_argument("--warmup", type=int, default=1)
arguments = parser.parse_args()

torch.set_num_threads(arguments.threads)

for path in arguments.configurations:
    config = AutoConfig.for_model(**json.loads(path.read_text()))
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    prompt = torch.randint(config.get_text_config().vocab_size, (1, arguments.prompt))
    firsts, tokens = [], []
    with torch.inference_mode():
        for _ in range(arguments.warmup + arguments.runs):
            ids, cache, times = prompt, None, []
            for _ in range(arguments.generate):
                begin = perf_counter()
                out = model(ids, past_key_values=cache, use_cache=True, logits_to_keep=1)
                cache, ids = out.past_key_values, out.logits[:, -1:].argmax(-1)
                times.append(1000 * (perf_counter() - begin))
            firsts.append(times[0])
            tokens.append(sum(times[1:]) / len(times[1:]))
    result = {
        "name": path.stem,
        "ttft_ms": median(firsts[arguments.warmup :]),
        "tpot_ms": median(tokens[arguments.warmup :]),
    }
    print(json.dumps(result), flush=True)

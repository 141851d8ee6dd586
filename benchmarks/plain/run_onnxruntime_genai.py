"""TTFT and TPOT of language models, as a user of onnxruntime-genai measures them.

    python -m onnxruntime_genai.models.builder -i FOLDER -o WRITTEN -p int4 -e cpu -c CACHE
    python benchmarks/plain/run_onnxruntime_genai.py WRITTEN...

Each folder is one that the builder wrote. The weights of the model in its input may be random.
"""

import argparse
import json
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np
import onnxruntime_genai as og

parser = argparse.ArgumentParser()
parser.add_argument("folders", nargs="+", type=Path)
parser.add_argument("--threads", type=int, default=1)
parser.add_argument("--prompt", type=int, default=128)
parser.add_argument("--generate", type=int, default=32)
parser.add_argument("--runs", type=int, default=5)
parser.add_argument("--warmup", type=int, default=1)
arguments = parser.parse_args()

for folder in arguments.folders:
    config = og.Config(str(folder))
    config.overlay(json.dumps({"model": {"decoder": {"session_options": {
        "intra_op_num_threads": arguments.threads,
    }}}}))  # fmt: skip
    model = og.Model(config)
    length = arguments.prompt + arguments.generate
    firsts, tokens = [], []
    for _ in range(arguments.warmup + arguments.runs):
        options = og.GeneratorParams(model)
        options.set_search_options(max_length=length, min_length=length, do_sample=False)
        generator = og.Generator(model, options)
        times = []
        begin = perf_counter()
        generator.append_tokens(np.ones((1, arguments.prompt), np.int32))
        for _ in range(arguments.generate):
            generator.generate_next_token()
            times.append(1000 * (perf_counter() - begin))
            begin = perf_counter()
        firsts.append(times[0])
        tokens.append(sum(times[1:]) / len(times[1:]))
    result = {
        "name": folder.name,
        "ttft_ms": median(firsts[arguments.warmup :]),
        "tpot_ms": median(tokens[arguments.warmup :]),
    }
    print(json.dumps(result), flush=True)

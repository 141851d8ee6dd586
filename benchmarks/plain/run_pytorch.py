"""Median latencies of PyTorch modules, as a user of PyTorch measures them.

    python benchmarks/plain/run_pytorch.py PACKAGE.MODULE:FUNCTION...

Each function returns ``(module, example_inputs)``. Modules are found from the current directory on.
"""

import argparse
import json
import sys
from importlib import import_module
from statistics import median
from time import perf_counter

import torch

parser = argparse.ArgumentParser()
parser.add_argument("functions", nargs="+")
parser.add_argument("--threads", type=int, default=1)
parser.add_argument("--runs", type=int, default=8)
parser.add_argument("--warmup", type=int, default=2)
arguments = parser.parse_args()

sys.path.insert(0, "")
torch.set_num_threads(arguments.threads)

for function in arguments.functions:
    file, name = function.removeprefix("torch:").split(":")
    begin = perf_counter()
    module, inputs = getattr(import_module(file), name)()
    module.eval()
    load_s = perf_counter() - begin
    times = []
    with torch.inference_mode():
        for _ in range(arguments.warmup + arguments.runs):
            begin = perf_counter()
            module(*inputs)
            times.append(1000 * (perf_counter() - begin))
    result = {"name": name, "median_ms": median(times[arguments.warmup :]), "load_s": load_s}
    print(json.dumps(result), flush=True)

"""Median latencies of MXNet networks, as a user of MXNet measures them.

    OMP_NUM_THREADS=1 python benchmarks/plain/run_mxnet.py NAME-or-SYMBOL-FILE...

A name is one of Gluon's model zoo. Beside NAME-symbol.json lies NAME-0000.params.
"""

import argparse
import json
import os
from ast import literal_eval
from pathlib import Path
from statistics import median
from time import perf_counter

parser = argparse.ArgumentParser()
parser.add_argument("networks", nargs="+")
parser.add_argument("--threads", type=int, default=1)
parser.add_argument("--runs", type=int, default=8)
parser.add_argument("--warmup", type=int, default=2)
arguments = parser.parse_args()

os.environ["OMP_NUM_THREADS"] = str(arguments.threads)  # MXNet reads it once, when imported

import numpy as np  # noqa: E402

np.bool = bool  # a name that MXNet 1.9 uses and numpy has dropped
import mxnet as mx  # noqa: E402
from mxnet.gluon.model_zoo.vision import get_model  # noqa: E402

IMAGE = "(1, 3, 224, 224)"  # for symbol files that tell no shape

for name in arguments.networks:
    begin = perf_counter()
    if name.endswith("-symbol.json"):
        file = name.replace("-symbol.json", "-0000.params")
        symbol = mx.sym.load(name)
        weights = {key.partition(":")[2] for key in mx.nd.load(file)}
        sources = [key for key in symbol.list_inputs() if key not in weights]
        told = symbol.attr_dict()
        shapes = [literal_eval(told.get(key, {}).get("__shape__", IMAGE)) for key in sources]
        block = mx.gluon.SymbolBlock.imports(name, sources, file)
    else:
        block = get_model(name.removeprefix("mxnet:"))
        block.initialize()
        shapes = [literal_eval(IMAGE.replace("224", "299") if "inception" in name else IMAGE)]
    block.hybridize(static_alloc=True, static_shape=True)
    inputs = [mx.nd.random.normal(shape=shape) for shape in shapes]
    load_s = perf_counter() - begin
    times = []
    for _ in range(arguments.warmup + arguments.runs):
        begin = perf_counter()
        block(*inputs)
        mx.nd.waitall()
        times.append(1000 * (perf_counter() - begin))
    result = {"name": Path(name).name.removesuffix("-symbol.json").removeprefix("mxnet:")}
    result |= {"median_ms": median(times[arguments.warmup :]), "load_s": load_s}
    print(json.dumps(result), flush=True)

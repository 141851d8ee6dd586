"""Median latencies of ONNX files, as a user of ONNX Runtime measures them.

python benchmarks/plain/run_onnxruntime.py FILE...
"""

import argparse
import json
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np
import onnxruntime as ort

parser = argparse.ArgumentParser()
parser.add_argument("files", nargs="+")
parser.add_argument("--threads", type=int, default=1)
parser.add_argument("--runs", type=int, default=8)
parser.add_argument("--warmup", type=int, default=2)
arguments = parser.parse_args()

options = ort.SessionOptions()
options.intra_op_num_threads = arguments.threads
rng = np.random.default_rng(0)
KINDS = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(float16)": np.float16}
KINDS |= {"tensor(int64)": np.int64, "tensor(int32)": np.int32, "tensor(bool)": np.bool_}

for file in arguments.files:
    begin = perf_counter()
    session = ort.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    load_s = perf_counter() - begin
    feeds = {}
    for node in session.get_inputs():
        kind = KINDS[node.type]
        values = rng.standard_normal(node.shape) if "float" in node.type else np.ones(node.shape)
        feeds[node.name] = values.astype(kind)
    times = []
    for _ in range(arguments.warmup + arguments.runs):
        begin = perf_counter()
        session.run(None, feeds)
        times.append(1000 * (perf_counter() - begin))
    result = {"name": Path(file).stem, "median_ms": median(times[arguments.warmup :])}
    print(json.dumps({**result, "load_s": load_s}), flush=True)

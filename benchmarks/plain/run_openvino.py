"""Median latencies of ONNX files, as a user of OpenVINO measures them.

python benchmarks/plain/run_openvino.py FILE...
"""

import argparse
import json
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np
import openvino

parser = argparse.ArgumentParser()
parser.add_argument("files", nargs="+")
parser.add_argument("--threads", type=int, default=1)
parser.add_argument("--runs", type=int, default=8)
parser.add_argument("--warmup", type=int, default=2)
parser.add_argument("--precision", default="f32", help="or bf16, f16; none: OpenVINO's choice")
arguments = parser.parse_args()

# A core with two hardware threads otherwise computes with one, whatever the number.
properties = {"INFERENCE_NUM_THREADS": arguments.threads, "ENABLE_HYPER_THREADING": True}
if arguments.precision != "none":
    properties["INFERENCE_PRECISION_HINT"] = arguments.precision
rng = np.random.default_rng(0)
core = openvino.Core()

for file in arguments.files:
    begin = perf_counter()
    compiled = core.compile_model(file, "CPU", properties)
    load_s = perf_counter() - begin
    feeds = {}
    for port in compiled.inputs:
        kind = port.element_type.to_dtype()
        values = rng.standard_normal(port.shape) if kind.kind == "f" else np.ones(port.shape)
        feeds[port.get_any_name()] = values.astype(kind)
    times = []
    for _ in range(arguments.warmup + arguments.runs):
        begin = perf_counter()
        compiled(feeds)
        times.append(1000 * (perf_counter() - begin))
    result = {"name": Path(file).stem, "median_ms": median(times[arguments.warmup :])}
    print(json.dumps({**result, "load_s": load_s}), flush=True)

"""Median latencies of ONNX files, as a user of OpenVINO measures them.

python benchmarks/plain/run_openvino.py FILE...

With --benchmark-app, latency is what `benchmark_app -hint latency -api sync` reports: inputs are
given once, and the median is that of the runs of so many seconds.
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
parser.add_argument("--benchmark-app", type=float, metavar="SECONDS", help="its definition")
arguments = parser.parse_args()

# A core with two hardware threads otherwise computes with one, whatever the number.
properties = {"INFERENCE_NUM_THREADS": arguments.threads, "ENABLE_HYPER_THREADING": True}
if arguments.benchmark_app:
    properties["PERFORMANCE_HINT"] = "LATENCY"
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
    if arguments.benchmark_app:
        request = compiled.create_infer_request()
        request.infer(feeds)
        end = perf_counter() + arguments.benchmark_app
        while perf_counter() < end or not times:
            request.infer()
            times.append(request.latency)
    else:
        for _ in range(arguments.warmup + arguments.runs):
            begin = perf_counter()
            compiled(feeds)
            times.append(1000 * (perf_counter() - begin))
        del times[: arguments.warmup]
    result = {"name": Path(file).stem, "median_ms": median(times)}
    print(json.dumps({**result, "load_s": load_s}), flush=True)

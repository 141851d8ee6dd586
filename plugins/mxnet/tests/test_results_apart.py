"""What MXNet's default engine takes for the results of a graph."""

import os
import subprocess
import sys

from dlbricks_mxnet.backend import MxnetBackend

SIZE = 64
"""MiB of a feature map."""

PROGRAM = f"""
import os, sys
from dlbricks_mxnet.framework import import_mxnet
from dlbricks_core.worker.memory import resident_mib
from dlbricks_quantities.resident import forget_peak, peak_mib
mx = import_mxnet()
number = os.fork()  # MXNet is imported once for both graphs
if number:
    os.waitpid(number, 0)
graph = "read" if number else "result"
x = mx.sym.var("x")
y = mx.sym.Convolution(x, num_filter=256, kernel=(1, 1), no_bias=True)
y = mx.sym.Activation(mx.sym.BatchNorm(y, use_global_stats=True), act_type="relu")
if graph == "read":
    y = mx.sym.Pooling(y, global_pool=True, pool_type="avg", kernel=(1, 1))
block = mx.gluon.SymbolBlock(y, [x])
block.collect_params().setattr("grad_req", "null")
block.initialize()
block.hybridize()
given = [mx.nd.ones((1, 8, side, side)) for side in (8, {2 * SIZE * 2})]
block(given[0]).wait_to_read()
mx.nd.waitall()
forget_peak()
before = resident_mib()
block(given[1]).wait_to_read()
print(graph, peak_mib() - before, flush=True)
"""


def test_an_activation_takes_memory_of_its_own_only_as_a_result_of_the_graph():
    """MiB that the first large run of a graph takes in a process with the default engine."""
    assert MxnetBackend.traits.results_apart
    threaded = {"MXNET_ENGINE_TYPE": "ThreadedEnginePerDevice", "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True,
                          check=True, env={**os.environ, **threaded})  # fmt: skip
    taken = {graph: float(mib) for graph, mib in map(str.split, done.stdout.splitlines())}
    assert taken["result"] - taken["read"] > 0.8 * SIZE

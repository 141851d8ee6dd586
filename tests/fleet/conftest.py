"""A real scheduler, real workers and a small suite."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
import pytest
from dlbricks_suite import generate
from onnx import TensorProto, helper, numpy_helper

pytest.importorskip("distributed")
pytest.importorskip("onnxruntime")

COMMAND = (sys.executable, "-m", "dlbricks_core.cli")
#: What commands of a fleet begin with. None of it looks at folders or at the system, nor at the
#: environment, as ``dlbricks_fleet.jobs`` does.
IMPORTED = ("dlbricks_fleet.settings:override", "distributed", "dlbricks_core.store.store",
            "dlbricks_suite.folder.read", "dlbricks_core.measure.session",
            "dlbricks_fleet.command", "dlbricks_core.report.tables")  # fmt: skip
#: What Dask would set must not come from the tests' own environment.
OPEN = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MALLOC_TRIM_THRESHOLD_")


def perceptron(name, widths):
    """A network of a matrix product and an activation for each width."""
    rng, nodes, weights, last = np.random.default_rng(0), [], [], "x"
    for i, (rows, columns) in enumerate(pairwise(widths)):
        weight = rng.normal(size=(rows, columns)).astype(np.float32)
        weights.append(numpy_helper.from_array(weight, f"w{i}"))
        nodes.append(helper.make_node("MatMul", [last, f"w{i}"], [f"m{i}"]))
        nodes.append(helper.make_node("Tanh" if i % 2 else "Sigmoid", [f"m{i}"], [f"y{i}"]))
        last = f"y{i}"
    ends = [
        [helper.make_tensor_value_info(each, TensorProto.FLOAT, [1, width])]
        for each, width in (("x", widths[0]), (last, widths[-1]))
    ]
    graph = helper.make_graph(nodes, name, *ends, weights)
    opsets = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


class Process:
    """A command of a fleet in a process of its own, and what it says.

    It may be inside a network namespace.
    """

    def __init__(self, nurseries, folder, *arguments, inside=""):
        environment = {name: value for name, value in os.environ.items() if name not in OPEN}
        environment |= {"COLUMNS": "80", "XDG_DATA_HOME": str(folder / "data")}
        environment["TMPDIR"] = str(folder / "tmp")
        if not inside:
            words = ("fleet", *arguments)
            self._process = nurseries.command(words, environment, folder, IMPORTED)
            return
        self._process = subprocess.Popen(
            ["ip", "netns", "exec", inside, *COMMAND, "fleet", *map(str, arguments)],
            cwd=folder, env=environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def says(self, word):
        """The next line with a word in it."""
        for line in self._process.stderr:
            if word in line:
                return line
        raise AssertionError(f"it never said {word!r}")

    def end(self, number=signal.SIGINT):
        """Ends it by a signal; its exit status and the rest of what it said."""
        self._process.send_signal(number)
        _, said = self._process.communicate(timeout=60)
        return self._process.returncode, said

    def done(self):
        """Waits until it ends: exit status, output and messages."""
        out, err = self._process.communicate(timeout=180)
        return self._process.returncode, out, err


@pytest.fixture(scope="session")
def start(processes, nurseries, tmp_path_factory):
    """Starts commands of ``dlbricks fleet``; those that are left are ended."""
    folder = tmp_path_factory.mktemp("fleet")
    (folder / "tmp").mkdir()
    with ExitStack() as stack:

        def begin(*arguments, inside=""):
            process = Process(nurseries, folder, *arguments, inside=inside)
            stack.callback(process.end, signal.SIGKILL)
            return process

        begin.folder = folder
        yield begin


@pytest.fixture(scope="session")
def wait_for():
    """Waits until the state of a fleet is as it should be, and returns it.

    It asks in this process, since each command would import for seconds.
    """
    from dlbricks_fleet import extra
    from dlbricks_fleet.access import Access

    def wait(address, holds, seconds=60):
        client = extra.load("client").FleetClient(address, Access())
        try:
            deadline = time.monotonic() + seconds
            while not holds(found := client.state()):
                assert time.monotonic() < deadline, found
                time.sleep(0.1)
        finally:
            client.close()
        return found

    return wait


@pytest.fixture(scope="session")
def scheduler(start):
    """Address of a scheduler."""
    process = start("scheduler", "--host", "127.0.0.1", "--port", "0")
    return process.says("Scheduler at").split()[-1]


@pytest.fixture(scope="session")
def hosts(start, scheduler):
    """Two hosts that are alike, as they are one machine."""
    started = [start("worker", "--scheduler", scheduler, "--spool", f"w{i}") for i in range(2)]
    return [each.says("Joined").split(" as ")[1].split(";")[0] for each in started]


@pytest.fixture(scope="session")
def generated(start):
    """Generates a suite of networks with these widths."""
    folder: Path = start.folder

    def make(name, *networks):
        files = [folder / f"{name}{i}.onnx" for i in range(len(networks))]
        for file, widths in zip(files, networks, strict=True):
            onnx.save(perceptron(file.stem, widths), file)
        generate([str(file) for file in files], folder / name, granularity=2)
        return folder / name

    return make


@pytest.fixture(scope="session")
def suite(generated):
    """Folder of a suite of several bricks."""
    return generated("suite", (16, 24, 48, 24), (16, 40, 56, 8), (8, 32, 72, 40))

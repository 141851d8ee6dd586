"""Pages that the allocator gives back and takes again within a run."""

import subprocess
import sys

import pytest
from dlbricks_pytorch.engine import page_faults, python_of
from dlbricks_pytorch.trimming import PAGE_BYTES, retaken_pages

from dlbricks_core.ir import CanonicalModel, Layer, TensorSpec

MIB = 2**20


def model(*layers, sizes, outputs=("y",)):
    """Layers of one input and one result, whose sizes are in MiB."""
    tensors = {name: TensorSpec("float32", (size * MIB // 4,)) for name, size in sizes.items()}
    made = tuple(Layer(op, tuple(read), (name,)) for op, read, name in layers)
    return CanonicalModel("m", made, ("x",), outputs, tensors)


def wide(blocks, width=1, op="Relu"):
    """Blocks that hold four results at a time, and then only one."""
    layers, sizes = [], {"x": width}
    for block in range(blocks):
        before = "x" if not block else f"{block - 1}.sum"
        names = [f"{block}.{part}" for part in "abcd"]
        layers += [(op, [before], name) for name in names]
        layers.append(("Sum", names, f"{block}.sum"))
        sizes |= dict.fromkeys([*names, f"{block}.sum"], width)
    layers.append(("Relu", [f"{blocks - 1}.sum"], "y"))
    return model(*layers, sizes=sizes | {"y": width})


@pytest.mark.parametrize("blocks", [1, 3])
def test_each_block_takes_again_what_the_block_before_gave_back(blocks):
    per_block = retaken_pages(wide(blocks)) / blocks
    assert per_block == pytest.approx(4 * MIB / PAGE_BYTES, rel=0.26)


def test_views_take_no_memory_and_few_results_are_kept():
    assert retaken_pages(wide(3, op="Flatten")) == 0
    chain = [("Relu", [first], second) for first, second in ("xa", "ab", "by")]
    assert retaken_pages(model(*chain, sizes=dict.fromkeys("xaby", 1))) == 0


def test_results_with_a_block_of_their_own_are_left_out():
    """They are mapped anew in each run, of a brick as well."""
    assert retaken_pages(wide(2, width=33)) == 0


def test_a_plain_process_has_page_faults_where_the_rules_say_so():
    """How many, depends on where its results lie."""
    script = """
import resource, torch
torch.set_num_threads(1)
def run(parts):
    x = torch.ones(2**18)
    for _ in range(8):
        several = [x + 1 for _ in range(parts)]
        x = several[0] + several[-1]
        del several
    return x
with torch.inference_mode():
    for parts in (1, 1, 1, 4, 4, 4):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        run(parts)
        print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    _, _, few, _, _, many = map(int, done.stdout.split())
    assert few < many <= 1.3 * retaken_pages(wide(8))


def test_threads_share_the_page_faults():
    found = wide(4)
    cached = CanonicalModel(
        "m", found.layers, ("x", "past_key.0"), found.outputs,
        {**found.tensors, "past_key.0": TensorSpec("float32", (1,))},
    )  # fmt: skip
    alone, together = python_of(cached), python_of(cached, threads=2)
    assert alone.faults == pytest.approx(page_faults().part * retaken_pages(cached))
    assert together.faults == pytest.approx(alone.faults / 2)

"""Attack by shapes: counts the models that can be assembled from the bricks of a suite.

The attacker joins bricks whose ends have equal shapes. The count favours the attacker, who knows
the model's inputs and outputs, the number of its bricks, and which of its bricks have several
inputs or outputs and where. For an attacker with less knowledge, the number of candidates is a
lower bound.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from fractions import Fraction

from dlbricks_core.bricks import Brick

Ends = tuple[str, str]
AllEnds = tuple[tuple[str, ...], tuple[str, ...]]


def log10_candidates(chain: Sequence[str], bricks: Mapping[str, Brick]) -> float:
    """Decimal logarithm of the number of chains with the same ends and as many bricks.

    A brick may occur in a chain any number of times, as in a model. The count is exact: the number
    of walks of a given length between two shapes, by dynamic programming over the length. Bricks
    with several inputs or outputs keep their positions, and the counts of the runs between them are
    multiplied.

    Args:
        chain: Signatures of the model's bricks, in the order in which they run.
        bricks: Bricks that the attacker has, by signature; the model's are among them.

    Returns:
        The logarithm; 0 where the model itself is the only candidate.

    Raises:
        ValueError: If a brick of the model is not among the bricks.
    """
    if not bricks.keys() >= set(chain):
        raise ValueError("a brick of the model is not in the suite")
    joints = {s: ends for s, each in bricks.items() if (ends := _ends(each)) is not None}
    edges = Counter(joints.values())
    return sum(_log10(_walks(run, edges)) for run in _runs(chain, joints))


def alternatives(signature: str, bricks: Mapping[str, Brick]) -> int:
    """Number of other bricks with the same shapes at their ends."""
    wanted = all_ends(bricks[signature])
    return sum(all_ends(each) == wanted for each in bricks.values()) - 1


def log10_of_choices(chain: Collection[str], bricks: Mapping[str, Brick]) -> float:
    """Decimal logarithm of the number of ways to choose an alternative for each brick.

    This number is for an attacker who also knows the order of all shapes.

    Args:
        chain: Signatures of the model's bricks, each as often as it occurs.
        bricks: Bricks that the attacker has, by signature.
    """
    ends = Counter(map(all_ends, bricks.values()))
    return sum(math.log10(ends[all_ends(bricks[signature])]) for signature in chain)


def _walks(run: Sequence[Ends], edges: Mapping[Ends, int]) -> int:
    """Number of walks with the same ends and as many steps as a run."""
    reached = Counter({run[0][0]: 1})
    for _ in run:
        after: Counter[str] = Counter()
        for (begin, end), number in edges.items():
            if begin in reached:
                after[end] += reached[begin] * number
        reached = after
    return reached[run[-1][1]]


def _runs(chain: Sequence[str], joints: Mapping[str, Ends]) -> Iterator[list[Ends]]:
    """Runs: parts of a chain whose bricks follow each other end to end."""
    run: list[Ends] = []
    for signature in chain:
        ends = joints.get(signature)
        if run and (ends is None or run[-1][1] != ends[0]):
            yield run
            run = []
        if ends is not None:
            run.append(ends)
    if run:
        yield run


def _log10(count: int) -> float:
    """Decimal logarithm of an integer that may exceed every float."""
    digits = max(len(str(count)) - 15, 0)
    return digits + math.log10(Fraction(count, 10**digits))


def _ends(brick: Brick) -> Ends | None:
    begin, end = all_ends(brick)
    return (begin[0], end[0]) if len(begin) == len(end) == 1 else None


def all_ends(brick: Brick) -> AllEnds:
    """Shapes that a brick reads, and those that it computes, each sorted."""
    model = brick.model
    begin, end = ([str(model.tensors[name]) for name in names]
                  for names in (model.inputs, model.outputs))  # fmt: skip
    return tuple(sorted(begin)), tuple(sorted(end))

"""Settings that a backend declares, and traits of its framework."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class BackendOption:
    """A setting that a backend declares.

    Attributes:
        default: Value that applies when the user gives none.
        choices: All allowed values, the default among them.
        help: One line for the user.
    """

    default: str
    choices: Sequence[str]
    help: str


@dataclass(frozen=True)
class BackendSettings:
    """Settings of one backend; part of the identity of every measurement.

    Attributes:
        threads: Number of threads that compute one operator.
        options: Value of every option that the backend declares, by name.
        as_used: Whether the process is like a user's: nothing in it is shared among networks, and
            the framework has its own defaults.
    """

    threads: int = 1
    options: Mapping[str, str] = field(default_factory=dict)
    as_used: bool = False


@dataclass(frozen=True)
class Traits:
    """Peculiarities of a framework that decide how its networks are timed.

    The defaults suit a framework that keeps nothing between runs. Where estimates are off,
    ``dlbricks check`` shows whether another value of a trait brings them nearer.

    Attributes:
        primed: Whether a copy of the network, with other weights, runs right before each timed
            run. In the middle of a model, the layers before have left code and memory warm.
            Where a framework keeps both for each network separately, only a run of the same
            layers warms them. The network's own weights stay cold.
        in_turns: Whether the worker goes from one network to the next without a pause.
            Otherwise it waits until each sample is stored, and whatever computes during the
            pause cools the caches. Which of the two is nearer to the middle of a model depends
            on what the framework keeps in the caches.
        weights_held: Number of copies of a network's weights that the framework keeps in
            memory: the given ones, and a second copy if it reorders them for its kernels.
            It limits how many networks are loaded at the same time, and says whether a model
            fits, and whether layers that read the same weights share what is kept of them.
            The quantity ``peak-memory`` shows it: ``kept-memory`` of a large layer over the
            bytes of its weights.
        weights_loading: Number of copies of a model's weights that are there at a time, at most,
            while the framework loads it from a file. The quantity ``peak-memory`` shows it:
            ``loading-memory`` of a large layer over the bytes of its weights.
        results_apart: Whether results of a graph have memory of their own, although feature maps
            that nobody reads any more would have room for them. A layer in the middle of a model
            uses that room. A graph of a layer and an activation shows it: with a small layer
            behind these it takes less memory.
        rewrites: Whether the framework executes another graph than the given one; see
            :meth:`Backend.rewrite`.
        folds_weights: Whether layers that read only weights run once, while a network is loaded,
            and not in each run. Graphs are optimized so; programs that run line by line are not.
        rewrite_uses_all_threads: Whether rewriting one model keeps all threads busy. Several
            models are otherwise rewritten at the same time, one on each core.
        domains: Domains of operators beside ONNX's whose layers the framework runs as they are.
            Other frameworks run the definitions of such operators, or refuse them. ``None`` if
            nobody knows, as where the framework is not installed.
        engine: Program for language models whose figures its estimates are, and what of it they
            lack, to follow "Figures are those of". Without it they are the framework's, on the
            graph of DLBricks.
        blocks_only: Whether the framework runs nothing but what :meth:`Backend.rewrite` makes of
            the configuration that a language model was built from. Models are then rewritten as a
            whole, which needs no weights, and estimated from bricks that are timed alone.
    """

    primed: bool = False
    in_turns: bool = False
    weights_held: int = 2
    weights_loading: int = 2
    results_apart: bool = False
    rewrites: bool = False
    folds_weights: bool = True
    rewrite_uses_all_threads: bool = False
    domains: frozenset[str] | None = frozenset()
    engine: str = ""
    blocks_only: bool = False

"""Settings that a backend declares, and traits of its framework."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dlbricks_core.ir import CanonicalModel, Layer


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
        as_used: Whether the process is set up as a user's process is: networks share nothing, and
            the framework has its own defaults.
    """

    threads: int = 1
    options: Mapping[str, str] = field(default_factory=dict)
    as_used: bool = False


@dataclass(frozen=True)
class Traits:
    """Peculiarities of a framework that decide how its networks are timed.

    The defaults suit a framework that keeps nothing between runs. Where estimates are off,
    ``dlbricks check`` shows whether another value of a trait reduces the error.

    Attributes:
        primed: Whether a copy of the network, with other weights, runs right before each timed
            run. In the middle of a model, earlier layers have warmed code and memory. If a
            framework has separate code and memory for each network, only a run of the same layers
            warms them. The network's own weights stay cold.
        in_turns: Whether the worker goes from one network to the next without a pause.
            Otherwise it waits until each sample is stored, and other code replaces data in the
            caches during the pause. The better value depends on the data that the framework keeps
            in the caches.
        weights_held: Number of copies of a network's weights that the framework keeps in
            memory: the given ones, and a second copy if it reorders them for its kernels.
            It limits how many networks are loaded at the same time. It also decides whether a model
            fits into memory, and whether layers with the same weights share the kept copy. To
            measure it with the quantity ``peak-memory``, divide ``kept-memory`` of a large layer by
            the bytes of its weights.
        weights_loading: Maximum number of copies of a model's weights in memory while the framework
            loads the model from a file. To measure it with the quantity ``peak-memory``, divide
            ``loading-memory`` of a large layer by the bytes of its weights.
        results_apart: Whether the framework allocates separate memory for a graph's results, even
            where a dead feature map is large enough. A layer in the middle of a model reuses such
            memory. Test: a graph of a layer and an activation takes less memory with a small layer
            at its end.
        rewrites: Whether the framework executes another graph than the given one; see
            :meth:`Backend.rewrite`.
        folds_weights: Whether layers that read only weights run once, while a network is loaded,
            and not in each run. True of frameworks that optimize graphs, false of frameworks that
            run line by line.
        rewrite_uses_all_threads: Whether rewriting one model keeps all threads busy. Several
            models are otherwise rewritten at the same time, one on each core.
        domains: Domains of operators beside ONNX's whose layers the framework runs as they are.
            Other frameworks run the definitions of such operators, or refuse them. ``None`` if
            unknown, for example if the framework is not installed.
        lacks: Operators that the framework cannot run, and domains of which it runs none
            (``ai.onnx.ml``). Layers of these have no predicted latency. The others may still be
            unsupported: :meth:`Backend.check` tells.
        types: Element types of the activations that the framework can hold; empty if unknown.
            Layers with others have no predicted latency.
        lacks_of_type: Operators that the framework runs, but not with a first input or output of an
            element type, by that type. Layers of these have no predicted latency either.
        refuses: Function of a model and one of its layers: why the framework cannot run this layer,
            although it runs others of the operator; empty if it may run. Such layers have no
            predicted latency either.
        engine: Name of the program for language models whose speed is estimated, and its parts that
            the estimate leaves out; the text follows "Figures are for". If empty, the estimate
            is for the framework on the graph of DLBricks.
        form: Program whose files collections of language models imitate for the backend, where they
            can (``ImportOptions.form``); empty for layers of ONNX.
        blocks_only: Whether the framework runs only the graphs that :meth:`Backend.rewrite` makes
            from the configuration of a language model. Whole models are then rewritten, which needs
            no weights, and estimated from bricks that are timed alone. The timer
            draws the weights itself.
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
    lacks: frozenset[str] = frozenset()
    types: frozenset[str] = frozenset()
    lacks_of_type: Mapping[str, frozenset[str]] = field(default_factory=dict)
    refuses: Callable[[CanonicalModel, Layer], str] | None = None
    engine: str = ""
    form: str = ""
    blocks_only: bool = False

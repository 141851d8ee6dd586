"""The ways in which MXNet runs a graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Protocol

from dlbricks_mxnet.framework import NDArray, import_mxnet
from dlbricks_mxnet.lowering import Lowered

mx = import_mxnet()


class Start(Protocol):
    """Starts one inference and returns its results, which are not there yet.

    Attributes:
        arrays: Arrays that it reads by default; empty if it cannot read others.
    """

    arrays: Sequence[NDArray]

    def __call__(
        self, arrays: Sequence[NDArray] = (), results: Sequence[NDArray] = ()
    ) -> Sequence[NDArray]:
        """Starts one inference.

        Args:
            arrays: Arrays to read instead, in the order of the attribute ``arrays``.
            results: Arrays for the results; new ones if empty, or if the executor cannot do that.
        """


#: Builds an executor for a network with its arrays.
Prepare = Callable[[Lowered, Mapping[str, NDArray]], Start]


class _CachedOp:
    """Runs as a hybridized Gluon block does.

    Args:
        lowered: The network.
        arrays: Its inputs and weights.
        static: Whether its memory is allocated once (``static_alloc``, ``static_shape``).
    """

    def __init__(self, lowered: Lowered, arrays: Mapping[str, NDArray], *, static: bool) -> None:
        names = lowered.symbol.list_inputs()
        data = [i for i, name in enumerate(names) if name in lowered.inputs]
        parameters = [i for i, name in enumerate(names) if name not in lowered.inputs]
        flags = [("data_indices", data), ("param_indices", parameters),
                 ("static_alloc", static), ("static_shape", static)]  # fmt: skip
        self._call = mx.nd.CachedOp(lowered.symbol, flags)
        self._own = [arrays[name] for name in names]
        self.arrays: Sequence[NDArray] = () if static else self._own

    def __call__(
        self, arrays: Sequence[NDArray] = (), results: Sequence[NDArray] = ()
    ) -> Sequence[NDArray]:
        place = list(results) if self.arrays and results else None
        found = self._call(*(arrays or self._own), out=place)
        return found if isinstance(found, list) else [found]


class _Bound:
    """Runs as ``Symbol.bind`` and the Module API do."""

    arrays: Sequence[NDArray] = ()

    def __init__(self, lowered: Lowered, arrays: Mapping[str, NDArray]) -> None:
        symbol = lowered.symbol
        self._executor = symbol.bind(
            mx.cpu(),
            args={name: arrays[name] for name in symbol.list_arguments()},
            aux_states={name: arrays[name] for name in symbol.list_auxiliary_states()},
            grad_req="null",
        )

    def __call__(
        self, arrays: Sequence[NDArray] = (), results: Sequence[NDArray] = ()
    ) -> Sequence[NDArray]:
        return self._executor.forward(is_train=False)  # type: ignore[no-any-return]


EXECUTORS: Mapping[str, Prepare] = {
    "cachedop": partial(_CachedOp, static=False),
    "static": partial(_CachedOp, static=True),
    "symbol": _Bound,
}
"""Ways to build an executor, by the name that ``--backend-option executor`` takes."""

"""Executors: the ways in which MXNet runs a graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Protocol

from dlbricks_mxnet.framework import NDArray, import_mxnet
from dlbricks_mxnet.lowering import Lowered

mx = import_mxnet()


class Start(Protocol):
    """Starts one inference and returns its pending results.

    Attributes:
        arrays: Default input arrays; empty if the executor cannot read others.
    """

    arrays: Sequence[NDArray]

    def __call__(
        self, arrays: Sequence[NDArray] = (), results: Sequence[NDArray] = ()
    ) -> Sequence[NDArray]:
        """Starts one inference.

        Args:
            arrays: Input arrays to read instead, in the order of the attribute ``arrays``.
            results: Arrays for the results; new ones if empty, or if the executor cannot use them.
        """


#: Builds an executor for a network with its arrays.
Prepare = Callable[[Lowered, Mapping[str, NDArray]], Start]


class _CachedOp:
    """Executor of hybridized Gluon blocks.

    Args:
        lowered: The network.
        arrays: Inputs and weights of the network.
        static: Whether memory is allocated once (``static_alloc``, ``static_shape``).
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
    """Executor of ``Symbol.bind`` and the Module API."""

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
"""Functions that build executors, by the name that ``--backend-option executor`` takes."""

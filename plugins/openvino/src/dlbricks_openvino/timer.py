"""The timer: loads and runs networks with OpenVINO."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import openvino

from dlbricks_core.backends import (
    Array,
    BackendSettings,
    CpuTimer,
    Network,
    Opened,
    Profile,
    refused_layers,
)
from dlbricks_core.bricks import cold_tensors
from dlbricks_core.errors import UnsupportedError
from dlbricks_core.ir import CanonicalModel
from dlbricks_openvino import deployed
from dlbricks_openvino.limits import refusals, refused_values
from dlbricks_openvino.loading import Loaded, Place, bound, compiled, other_shape, placed
from dlbricks_openvino.messages import is_refusal
from dlbricks_openvino.trial import refusal


class OpenvinoTimer(CpuTimer[Loaded]):
    """Times networks with OpenVINO's CPU plugin; runs are synchronous."""

    def __init__(self, settings: BackendSettings) -> None:
        self._settings = settings

    def load(self, network: Network) -> Loaded:
        """Compiles the network and binds memory to it."""
        model = network.model
        return self._bound(
            network, {name: placed(model, network.inputs, name) for name in model.inputs}
        )

    def load_copy(self, network: Network, loaded: Loaded, *, private_cache_bytes: int) -> Loaded:
        """Compiles a copy that reads the other network's inputs, except inputs that stay cold.

        The other network runs before its copy: OpenVINO keeps code and intermediate results for
        each network, and in a model that runs repeatedly both are warm. The copy then displaces the
        network's weights from the cores' private caches. Bricks with weights beyond these are an
        exception: a run would leave their weights in the shared cache, from which the other layers
        of a large model displace them. So are bricks with tensors that are to stay cold.
        """
        model, cold = network.model, cold_tensors(network.model)
        own = {name: placed(model, network.inputs, name) for name in model.inputs if name in cold}
        copy = self._bound(network, {**loaded.inputs, **own})
        small = not private_cache_bytes or model.weight_bytes <= private_cache_bytes
        if small and not cold:
            copy.before = loaded
        return copy

    def _bound(self, network: Network, inputs: Mapping[str, Place]) -> Loaded:
        return bound(self._compiled(network), network.model, inputs)

    def _compiled(self, network: Network) -> openvino.CompiledModel:
        _refuse(refusals(network.model).values())
        _refuse(refused_values(network))
        try:
            ready = compiled(network, self._settings)
        except RuntimeError as error:
            if is_refusal(error):
                _refuse(refused_layers(network.model, refusal).values())
            raise
        _refuse(filter(None, (other_shape(ready, network.model),)))
        return ready

    def save(self, network: Network, folder: Path) -> deployed.SavedModel:
        """Writes files in OpenVINO's own form."""
        _refuse(refusals(network.model).values())
        _refuse(refused_layers(network.model, refusal).values())
        return deployed.save(network, folder, self._settings)

    def open(
        self, model: CanonicalModel, inputs: Mapping[str, Array], profiled_runs: int
    ) -> Opened:
        """The user's file, compiled as it is."""
        from dlbricks_openvino.users import open_file

        return open_file(model, inputs, self._settings, profiled_runs)

    def run(self, loaded: Loaded) -> None:
        """One inference, in this thread."""
        if loaded.before:
            self.run(loaded.before)
        loaded.infer()

    def warm_io(self, loaded: Loaded) -> None:
        """Writes the outputs, then the inputs onto themselves."""
        for place in loaded.warmed:
            memory = place.memory.reshape(-1).view(np.uint8)
            np.bitwise_or(memory, 0, out=memory)

    def outputs(self, loaded: Loaded) -> Mapping[str, Array]:
        """Copies of the outputs."""
        return {name: np.array(place.values, order="C") for name, place in loaded.outputs.items()}

    def profile(self, network: Network, runs: int) -> Profile:
        """Time of every layer that OpenVINO executes, from its own counters."""
        from dlbricks_openvino.profile import profile

        _refuse(refusals(network.model).values())
        return profile(network, self._settings, runs)


def _refuse(reasons: Iterable[str]) -> None:
    told = dict.fromkeys(reasons)
    if told:
        raise UnsupportedError("; ".join(told))

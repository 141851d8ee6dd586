"""Networks saved in files, in the form that users of ONNX Runtime keep and open."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import onnx
import onnxruntime as ort
from onnxruntime.capi import _pybind_state as native

from dlbricks_core.backends import Array, BackendSettings, Network, Saved
from dlbricks_core.bricks import native_to
from dlbricks_core.ir import CanonicalModel
from dlbricks_onnxruntime.buffers import aligned
from dlbricks_onnxruntime.loading import Loaded, bind
from dlbricks_onnxruntime.sessions import session_options, without_optimizations, written

_PROVIDER = "CPUExecutionProvider"
_LARGEST = 2_000_000_000
"""Maximum bytes of weights inside the model file: protobuf is limited to 2 GB."""


def save(network: Network, folder: Path, settings: BackendSettings) -> SavedModel:
    """Writes an ONNX file; large weights go to a second one."""
    model, path = network.model, folder / "model.onnx"
    proto = written(model, network.weights)
    apart = model.weight_bytes > _LARGEST
    onnx.save(proto, path, save_as_external_data=apart, location="weights")
    if native_to(model):  # Layers created by ONNX Runtime itself must not be optimized again.
        settings = without_optimizations(settings)
    return SavedModel(model, network.inputs, path, settings)


@dataclass(frozen=True)
class SavedModel(Saved[Loaded]):
    """A network in an ONNX file.

    Attributes:
        model: The network.
        inputs: Values of its inputs, by name.
        path: The file.
        settings: Settings of its sessions.
    """

    model: CanonicalModel
    inputs: Mapping[str, Array]
    path: Path
    settings: BackendSettings

    def feed(self) -> Mapping[str, Array]:
        """The inputs in memory. Every run allocates its results."""
        return {name: aligned(self.inputs[name]) for name in self.model.inputs}

    def parse(self) -> Parsed:
        """Reads the file into a session that is not yet initialized.

        The session has an arena of its own: a shared arena would hold memory of earlier sessions.
        """
        options = session_options(self.settings)
        options.add_session_config_entry("session.use_env_allocators", "0")
        return Parsed(self.path, options)

    def prepare(self, parsed: Parsed, fed: Mapping[str, Array]) -> Loaded:
        """Optimizes the graph, packs the weights, and binds the inputs."""
        parsed.prepare()
        return bind(parsed, self.model, fed)


class Parsed(ort.InferenceSession):  # type: ignore[misc]
    """A session that has read its model, but is not initialized.

    ONNX Runtime's own constructor performs both steps at once.
    """

    def __init__(self, path: Path, options: ort.SessionOptions) -> None:
        ort.capi.onnxruntime_inference_collection.Session.__init__(self)
        self._sess_options = options
        self._sess = native.InferenceSession(options, str(path), True, False)

    def prepare(self) -> None:
        """Optimizes the graph and packs the weights."""
        self._providers = [_PROVIDER]
        self._sess.initialize_session(self._providers, [{}], set())

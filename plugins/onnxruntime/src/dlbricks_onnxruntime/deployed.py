"""Networks in files, as users of ONNX Runtime keep and open them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import onnx
import onnxruntime as ort
from onnxruntime.capi import _pybind_state as native

from dlbricks_core.backends import Array, BackendSettings, Network
from dlbricks_core.ir import CanonicalModel
from dlbricks_onnxruntime.loading import Loaded, bind
from dlbricks_onnxruntime.sessions import session_options, written

_FILE = "model.onnx"
_PROVIDER = "CPUExecutionProvider"
_LARGEST = 2_000_000_000
"""Most bytes of weights in the file of the model itself: protobuf takes no more than 2 GB."""


def save(network: Network, folder: Path) -> None:
    """Writes an ONNX file; large weights go to a second one."""
    proto = written(network.model, network.weights)
    apart = network.model.weight_bytes > _LARGEST
    onnx.save(proto, folder / _FILE, save_as_external_data=apart, location="weights")


@dataclass(frozen=True)
class Fed:
    """A model, and memory for its inputs and outputs."""

    model: CanonicalModel
    arrays: Mapping[str, Array]


class Parsed(ort.InferenceSession):  # type: ignore[misc]
    """A session whose two halves are called one by one: a session reads, and then prepares.

    ONNX Runtime's own constructor does both.
    """

    def __init__(self, path: Path, options: ort.SessionOptions) -> None:
        ort.capi.onnxruntime_inference_collection.Session.__init__(self)
        self._sess_options = options
        self._sess = native.InferenceSession(options, str(path), True, False)

    def prepare(self) -> None:
        """Optimizes the graph and packs the weights."""
        self._providers = [_PROVIDER]
        self._sess.initialize_session(self._providers, [{}], set())


def parse(folder: Path, settings: BackendSettings) -> Parsed:
    """Reads the file, with memory of its own as a session in a user's process has it."""
    options = session_options(settings)
    options.add_session_config_entry("session.use_env_allocators", "0")
    return Parsed(folder / _FILE, options)


def prepare(parsed: Parsed, fed: Fed) -> Loaded:
    """Optimizes the graph, packs the weights, and binds inputs and outputs."""
    parsed.prepare()
    return bind(parsed, fed.model, fed.arrays)

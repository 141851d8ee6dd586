"""Description of the backend; the evaluator is imported only where it is used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from dlbricks_core.backends import Backend, BackendSettings, refused_layers
from dlbricks_core.ir import CanonicalModel

if TYPE_CHECKING:
    from dlbricks_reference.timer import ReferenceTimer


class ReferenceBackend(Backend):
    """Runs bricks with the reference evaluator of the onnx package, on numpy."""

    name = "reference"
    distribution = "onnx"
    default_models = ("onnx:light_squeezenet",)

    def version(self) -> str:
        """Version of the installed onnx package, from its metadata."""
        return self.installed_version()

    def environment(self, settings: BackendSettings) -> Mapping[str, str]:
        """Number of threads, which numpy reads when it is imported."""
        threads = str(settings.threads)
        return {"OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads}

    def timer(self, settings: BackendSettings) -> ReferenceTimer:
        """Imports the evaluator and returns a timer."""
        self.version()
        from dlbricks_reference.timer import ReferenceTimer

        return ReferenceTimer()

    def check(self, model: CanonicalModel) -> Mapping[int, str]:
        """Layers that the evaluator does not implement."""
        from dlbricks_reference.timer import refusal

        return refused_layers(model, refusal)

    def native(self, source: str) -> bool:
        """Whether the model comes from an ONNX file, which the evaluator reads itself."""
        return source.endswith(".onnx")

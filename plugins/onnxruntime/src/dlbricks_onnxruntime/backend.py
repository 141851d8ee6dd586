"""The backend's description; ONNX Runtime is imported only where it is used."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from dlbricks_core.backends import Backend, BackendOption, BackendSettings, Traits, Watch
from dlbricks_core.bricks import native_to
from dlbricks_core.ir import CanonicalModel
from dlbricks_onnxruntime.kernels import TYPES, WITHOUT_KERNEL
from dlbricks_onnxruntime.limits import refusal
from dlbricks_onnxruntime.messages import one_line

if TYPE_CHECKING:
    from dlbricks_onnxruntime.timer import OnnxruntimeTimer


class OnnxruntimeBackend(Backend):
    """Runs bricks with ONNX Runtime's CPU execution provider."""

    name = "onnxruntime"
    distribution = "onnxruntime"
    importing = "import onnxruntime"
    options: Mapping[str, BackendOption] = {
        "optimizations": BackendOption(
            default="all",
            choices=("all", "extended", "basic", "off"),
            help="How far ONNX Runtime may rewrite the graph.",
        ),
    }
    traits = Traits(
        # Every session has its own code paths and memory.
        primed=True,
        # Most kernels pack their weights, and a session also keeps the given ones: MatMul and Gemm
        # of 128 MiB and Conv of 36 MiB keep 2.0 times that (kept-memory of ONNX Runtime 1.31).
        weights_held=2,
        # The file as parsed by protobuf, plus the session's own weights: 1.9 times the weights of
        # VGG-19.
        weights_loading=2,
        # It fuses layers and keeps feature maps in a blocked layout.
        rewrites=True,
        domains=frozenset({"com.microsoft"}),
        types=TYPES,
        lacks_of_type=WITHOUT_KERNEL,
        refuses=refusal,
        engine="ONNX Runtime on ONNX operators, with scores of the last position alone",
        form="onnxruntime-genai",
    )
    default_models = (
        "onnx:light_resnet50",
        "onnx:light_densenet121",
        "onnx:light_inception_v1",
        "onnx:light_shufflenet",
        "onnx:light_squeezenet",
    )

    def version(self) -> str:
        """Version of the installed ONNX Runtime, from its metadata."""
        return self.installed_version()

    def environment(self, settings: BackendSettings) -> Mapping[str, str]:
        """Number of threads outside of ONNX Runtime's own pool, which all sessions share."""
        return {"OMP_NUM_THREADS": str(settings.threads), "DLBRICKS_ONNXRUNTIME_WORKER": "1"}

    def engine(self, settings: BackendSettings, model: CanonicalModel) -> str:
        """onnxruntime-genai, for a model in the form of its files."""
        if any(layer.op == "GroupQueryAttention" for layer in model.layers):
            return "onnxruntime-genai on the file of its model builder, with scores of all tokens"
        return super().engine(settings, model)

    def timer(self, settings: BackendSettings) -> OnnxruntimeTimer:
        """Imports ONNX Runtime and returns a timer."""
        self.version()
        self.check_options(settings)
        from dlbricks_onnxruntime.timer import OnnxruntimeTimer

        return OnnxruntimeTimer(settings)

    def opens(self, source: str) -> bool:
        """Whether the source is an ONNX file."""
        return source.endswith(".onnx") and Path(source).is_file()

    def watch(self, target: object) -> AbstractContextManager[Watch] | None:
        """A context for a session; ``None`` for anything else."""
        if "onnxruntime" not in sys.modules:
            return None
        from dlbricks_onnxruntime.users import watch

        return watch(target)

    def rewrite(
        self, model: CanonicalModel, settings: BackendSettings, seed: int
    ) -> CanonicalModel:
        """Graph after ONNX Runtime's optimizations."""
        from dlbricks_onnxruntime.rewrite import rewrite

        return rewrite(model, settings, seed)

    def reason(self, error: Exception) -> str:
        """Kind of an error, the layer, and the problem with it."""
        return f"{type(error).__name__}: {one_line(error)}"

    def check(self, model: CanonicalModel) -> Mapping[int, str]:
        """Layers without a CPU kernel in ONNX Runtime."""
        from dlbricks_onnxruntime.check import unsupported

        if native_to(model):  # ONNX Runtime made these layers
            return {}
        return unsupported(model)

"""The backend's description; OpenVINO is imported only where it is used."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from dlbricks_core.backends import Backend, BackendOption, BackendSettings, Traits
from dlbricks_core.errors import UnsupportedError
from dlbricks_core.ir import CanonicalModel
from dlbricks_openvino.files import SUFFIX
from dlbricks_openvino.messages import one_line

if TYPE_CHECKING:
    from dlbricks_openvino.timer import OpenvinoTimer


class OpenvinoBackend(Backend):
    """Runs bricks with OpenVINO's CPU plugin."""

    name = "openvino"
    distribution = "openvino"
    importing = "import openvino"
    options: Mapping[str, BackendOption] = {
        "precision": BackendOption(
            default="model",
            choices=("model", "openvino"),
            help="Compute in the model's element type, or in OpenVINO's choice for this CPU.",
        ),
    }
    traits = Traits(
        # Each compiled model has code, weights and memory of its own.
        primed=True,
        # It chooses the layouts of feature maps.
        rewrites=True,
        domains=frozenset({"com.microsoft"}),
        # Some of these run in whole files only, because OpenVINO converts them there.
        types=frozenset({
            "bfloat16", "bool", "float16", "float32", "float64", "int16", "int32", "int64", "int8",
            "uint16", "uint32", "uint64", "uint8",
        }),
        engine="OpenVINO on ONNX operators, not OpenVINO GenAI",
    )  # fmt: skip
    default_models = (
        "onnx:light_resnet50",
        "onnx:light_densenet121",
        "onnx:light_inception_v1",
        "onnx:light_shufflenet",
        "onnx:light_squeezenet",
    )

    def version(self) -> str:
        """Version of the installed OpenVINO, from its metadata."""
        return self.installed_version()

    def timer(self, settings: BackendSettings) -> OpenvinoTimer:
        """Imports OpenVINO and returns a timer."""
        self.version()
        self.check_options(settings)
        from dlbricks_openvino.timer import OpenvinoTimer

        return OpenvinoTimer(settings)

    def opens(self, source: str) -> bool:
        """Whether the source is a file that OpenVINO reads itself: its own, or an ONNX file."""
        return source.lower().endswith((".onnx", SUFFIX)) and Path(source).is_file()

    def watch(self, target: object) -> None:
        """Refuses a compiled model, which keeps neither its file nor the graph that it came from.

        Raises:
            UnsupportedError: If it is a model of OpenVINO.
        """
        if type(target).__module__.partition(".")[0] == "openvino":
            raise UnsupportedError(
                f"runs of a {type(target).__name__} of OpenVINO cannot be kept: it does not say "
                "from which file it was read",
                hint="Let DLBricks run the file: "
                "dlbricks estimate --measure --backend openvino MODEL.onnx",
            )

    def rewrite(
        self, model: CanonicalModel, settings: BackendSettings, seed: int
    ) -> CanonicalModel:
        """The model with the layouts in which OpenVINO keeps its feature maps."""
        from dlbricks_openvino.rewrite import rewrite

        return rewrite(model, settings, seed)

    def reason(self, error: Exception) -> str:
        """Type of an error, and the problem in its message."""
        return f"{type(error).__name__}: {one_line(error)}"

    def check(self, model: CanonicalModel) -> Mapping[int, str]:
        """Layers that OpenVINO cannot compile, or computes in another element type."""
        from dlbricks_openvino.check import unsupported

        return unsupported(model)

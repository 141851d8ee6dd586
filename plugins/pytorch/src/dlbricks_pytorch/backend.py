"""The backend's description; torch is imported only where it is used."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from dlbricks_core.backends import (
    Backend,
    BackendOption,
    BackendSettings,
    Interpreted,
    Traits,
    Watch,
)
from dlbricks_core.errors import BackendError
from dlbricks_core.ir import CanonicalModel

if TYPE_CHECKING:
    from dlbricks_pytorch.timer import PytorchTimer

_COMPILERS = ("g++", "clang++", "c++")
_CACHE = "TORCHINDUCTOR_CACHE_DIR"


class PytorchBackend(Backend):
    """Runs bricks with PyTorch on the CPU, eagerly unless ``compile`` says otherwise."""

    name = "pytorch"
    distribution = "torch"
    importing = "import torch"
    traits = Traits(
        # Networks share code and memory: a primed brick is warmer than in a model.
        primed=False,
        # After a pause a brick is colder than in a model.
        in_turns=True,
        # 54 networks and their bricks take as much memory as weights, inputs and outputs. MatMul,
        # Gemm, Gather and LSTM of 128 MiB and Conv of 36 MiB keep 1.0 times that (kept-memory of
        # torch 2.13); while they are loaded, twice to three times as much.
        weights_held=1,
        # The module takes the tensors that torch.load has read.
        weights_loading=1,
        # Modules compute in each run: quantized weights to floats, normalized weights. So does
        # torch.compile, which leaves weights as they are.
        folds_weights=False,
        lacks=frozenset(
            {
                "DeformConv",
                "ImageDecoder",
                "LinearAttention",
                "MaxRoiPool",
                "NonMaxSuppression",
                "RegexFullMatch",
                "RoiAlign",
                "StringConcat",
                "StringNormalizer",
                "StringSplit",
                "TfIdfVectorizer",
                "Unique",
                "ai.onnx.ml",
            }
        ),
        types=frozenset({
            "bfloat16", "bool", "complex128", "complex64", "float16", "float32", "float64",
            "float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz", "float8e8m0",
            "int16", "int32", "int64", "int8", "uint16", "uint32", "uint64", "uint8",
        }),
        engine="the loop of transformers",
    )  # fmt: skip
    options: Mapping[str, BackendOption] = {
        "memory_format": BackendOption(
            default="contiguous",
            choices=("contiguous", "channels_last"),
            help="Layout of 4-D activations and weights (5-D: channels_last_3d).",
        ),
        "compile": BackendOption(
            default="off",
            choices=("off", "default", "max-autotune"),
            help="Mode of torch.compile; needs a C++ compiler, compiles outside of the timing.",
        ),
    }

    def version(self) -> str:
        """Version of the installed torch, from its metadata."""
        return self.installed_version(
            hint="pip install torch (the CPU build, unless you need CUDA elsewhere)."
        )

    def environment(self, settings: BackendSettings) -> Mapping[str, str]:
        """Thread counts for torch's OpenMP and MKL runtimes, and the capacity of oneDNN's cache.

        oneDNN caches 1,024 primitives by default. A single model needs fewer, but all networks of a
        session may need more, and then each run would create primitives again.

        Networks are compiled in the worker itself, because a pool of compiler processes would still
        exist when the timing begins.
        """
        threads = str(settings.threads)
        environment = {
            "OMP_NUM_THREADS": threads,
            "MKL_NUM_THREADS": threads,
            "ONEDNN_PRIMITIVE_CACHE_CAPACITY": str(1 << 20),
        }
        if settings.options.get("compile", "off") != "off":
            environment["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
            # Compiled code is cached for later runs, outside of the worker's temporary folder.
            kept = str(Path(tempfile.gettempdir(), f"torchinductor_{os.getuid()}"))
            environment[_CACHE] = os.environ.get(_CACHE, kept)
        return environment

    def opens(self, source: str) -> bool:
        """Whether a factory of the user's makes the model."""
        return source.startswith("torch:")

    def watch(self, target: object) -> AbstractContextManager[Watch] | None:
        """A context for a module; ``None`` for anything else."""
        if "torch" not in sys.modules:
            return None
        from dlbricks_pytorch.users import watch

        return watch(target)

    def interpreted(self, model: CanonicalModel, settings: BackendSettings) -> Interpreted | None:
        """Python of transformers' modules; none where torch.compile leaves none."""
        from dlbricks_pytorch.engine import python_of

        if settings.options.get("compile", "off") != "off":
            return None
        return python_of(model, settings.threads)

    def timer(self, settings: BackendSettings) -> PytorchTimer:
        """Imports torch, sets its threads, and returns a timer.

        Raises:
            BackendError: If an option has no such value, or ``compile`` is on and there is
                no C++ compiler.
        """
        self.version()
        self.check_options(settings)
        self._check_compiler(settings)
        from dlbricks_pytorch.timer import PytorchTimer

        return PytorchTimer(settings)

    def check(self, model: CanonicalModel) -> Mapping[int, str]:
        """Layers that torch cannot express exactly, with the reason."""
        self.version()
        from dlbricks_pytorch.check import unsupported

        return unsupported(model)

    @staticmethod
    def can_compile() -> bool:
        """Whether there is a C++ compiler for torch.compile."""
        named = os.environ.get("CXX")
        return any(shutil.which(compiler) for compiler in ((named,) if named else _COMPILERS))

    def _check_compiler(self, settings: BackendSettings) -> None:
        if settings.options.get("compile", "off") != "off" and not self.can_compile():
            raise BackendError(
                "the option compile needs a C++ compiler, and none is installed",
                hint="Install g++ or clang++, name one in CXX, or leave the option off.",
            )

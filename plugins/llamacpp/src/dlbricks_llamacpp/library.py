"""llama.cpp's library: contexts on files, and what the library was built for."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from dlbricks_core.backends import Array
from dlbricks_core.errors import BackendError, PluginError
from dlbricks_core.machine.system import current_system

BATCH = 2048
"""Maximum number of tokens in one call, as in llama-bench."""

INPUTS = 8
"""Number of different inputs that runs take in turn: tokens decide which experts are read."""

_PORTABLE = 'CMAKE_ARGS="-DGGML_NATIVE=OFF -DGGML_AVX2=ON -DGGML_FMA=ON -DGGML_F16C=ON"'
"""Environment of a build that runs on every processor of the last ten years with AVX2."""

_NATIVE = (
    "pip install --force-reinstall --no-cache-dir --no-binary llama-cpp-python llama-cpp-python"
)

_ASK = """
import ctypes, sys
ask = ctypes.CDLL(sys.argv[1]).llama_print_system_info
ask.restype = ctypes.c_char_p
print(ask().decode())
"""

_TRY = """
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from dataclasses import replace
from dlbricks_llamacpp import files
from dlbricks_llamacpp.architecture import SMALLEST
from dlbricks_llamacpp.library import Context, Library
of = replace(SMALLEST, hidden=256, feed_forward=256)
with TemporaryDirectory() as folder:
    path = Path(folder) / "small.gguf"
    files.write(path, of, [files.Block()], sys.argv[1], 8)
    opened = Context(Library(), path, 1, "auto", 1, 0)
opened.prepare(1, "last")
opened.run()
opened.wait()
"""

_ASK_S = 60.0
"""Seconds after which a process that loads the library is ended."""

USED: dict[str, tuple[str, ...]] = {
    "AVX2": ("avx2",),
    "AVX512": ("avx512f", "avx512bw", "avx512vl", "avx512dq"),
    "AVX512_VNNI": ("avx512_vnni",),
    "AVX512_BF16": ("avx512_bf16",),
    "AVX_VNNI": ("avx_vnni",),
    "AMX_INT8": ("amx_tile", "amx_int8"),
    "DOTPROD": ("asimddp",),
    "MATMUL_INT8": ("i8mm",),
    "SVE": ("sve",),
}
"""Instruction sets that kernels of llama.cpp use, by the flags of processors that have them."""


@cache
def built_for() -> tuple[str, ...]:
    """Instruction sets and parts that the library was built with, as it states them.

    A process of its own loads the library: it may have been built for another processor.

    Raises:
        PluginError: If the library cannot be loaded.
    """
    try:
        found = subprocess.run(
            [sys.executable, "-IS", "-c", _ASK, str(_path())],
            capture_output=True, text=True, timeout=_ASK_S, check=True,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise _does_not_load(f"it takes more than {_ASK_S:g} s") from error
    except subprocess.CalledProcessError as error:
        message = error.stderr.strip().rpartition("\n")[2]
        raise _does_not_load(message or f"it ends with signal {-error.returncode}") from error
    parts = (part.strip() for part in found.stdout.replace("CPU :", "").split("|"))
    return tuple(part.partition(" = ")[0] for part in parts if part.endswith("= 1"))


def _does_not_load(reason: str) -> PluginError:
    return PluginError(
        f"the library of llama.cpp does not load: {reason}", hint=f"{_PORTABLE} {_NATIVE}"
    )


@cache
def try_out(dtype: str) -> None:
    """Runs a token of a small file in a process of its own, where builds are known to end it.

    Builds for AMX are: on some processors a first token of integer weights faults in them.

    Args:
        dtype: Type of the file.

    Raises:
        PluginError: If the process ends.
    """
    if "AMX_INT8" not in built_for():
        return
    done = subprocess.run(
        [sys.executable, "-c", _TRY, dtype],
        capture_output=True, text=True, timeout=_ASK_S, check=False,
    )  # fmt: skip
    if done.returncode:
        told = done.stderr.strip().rpartition("\n")[2]
        raise PluginError(
            f"this build of llama.cpp, which uses AMX, cannot run {dtype}: "
            f"{told or f'it ends with signal {-done.returncode}'}",
            hint=f"Build it without AMX: {_PORTABLE} {_NATIVE}",
        )


def _path() -> Path:
    folder = os.environ.get("LLAMA_CPP_LIB_PATH")
    spec = find_spec("llama_cpp")
    if folder is None and (spec is None or spec.origin is None):
        raise _does_not_load("its package llama_cpp cannot be imported")
    return (Path(folder) if folder else Path(spec.origin).parent / "lib") / "libllama.so"


def unused(flags: Sequence[str], built: Sequence[str]) -> list[str]:
    """Instruction sets that the processor has and the library was not built for.

    Args:
        flags: Flags of the processor.
        built: Instruction sets and options of the library's build.
    """
    return [
        name for name, needed in USED.items()
        if name not in built and set(needed) <= set(flags)
    ]  # fmt: skip


def advice() -> list[str]:
    """Advice on another build of the library for this processor; empty if it uses all it could."""
    lacking = unused(current_system().isa, built_for())
    if not lacking:
        return []
    return [
        f"llama.cpp was not built for {', '.join(lacking)}, which this processor has: "
        f'CMAKE_ARGS="-DGGML_NATIVE=ON" {_NATIVE}. If that build ends with an error at the first '
        f"token on a processor with AMX, build without it: {_PORTABLE} {_NATIVE}"
    ]


class Library:
    """The library, quiet, with the first line that it logged as an error."""

    def __init__(self) -> None:
        from llama_cpp import llama_cpp

        self.api: Any = llama_cpp
        self.error = ""
        # The library keeps the pointer, so the function must live as long.
        self._log = llama_cpp.llama_log_callback(self._logged)
        llama_cpp.llama_log_set(self._log, ctypes.c_void_p(0))
        llama_cpp.llama_backend_init()

    def _logged(self, level: int, text: bytes, _: object) -> None:
        if level == _ERROR and text.strip() and not self.error:  # later ones only follow from it
            self.error = text.decode(errors="replace").strip()

    def failed(self, what: str) -> BackendError:
        """Error with the first line that the library logged as one."""
        return BackendError(f"llama.cpp {what}{': ' if self.error else ''}{self.error}")


_ERROR = 4
"""Number of the level of errors in llama.cpp's log."""


class Context:
    """A file that is open, with some tokens in its cache.

    Args:
        library: The library.
        path: The file, which may be deleted afterwards.
        threads: Number of threads.
        attention: Whether attention runs in one kernel: ``auto``, ``on`` or ``off``.
        tokens: Number of new tokens of each run.
        past: Number of tokens in the cache.
    """

    def __init__(
        self, library: Library, path: Path, threads: int, attention: str, tokens: int, past: int
    ) -> None:
        api = self._api = library.api
        self._library, self._past = library, past
        library.error = ""
        self._model = api.llama_model_load_from_file(
            str(path).encode(), api.llama_model_default_params()
        )
        if not self._model:
            raise library.failed("cannot load the file of some blocks")
        parameters = api.llama_context_default_params()
        parameters.n_ctx = past + tokens
        parameters.n_batch = BATCH
        parameters.n_outputs_max_per_seq = 0
        parameters.n_threads = parameters.n_threads_batch = threads
        parameters.flash_attn_type = ATTENTION[attention]
        parameters.swa_full = False
        self._context = api.llama_init_from_model(self._model, parameters)
        if not self._context:
            api.llama_model_free(self._model)
            raise library.failed("cannot run the file of some blocks")
        self._memory = api.llama_get_memory(self._context)
        vocabulary = api.llama_model_get_vocab(self._model)
        self.vocabulary = int(api.llama_vocab_n_tokens(vocabulary))
        self._inputs: list[list[Any]] = []
        self.has_logits = False

    def prepare(self, tokens: int, outputs: str) -> None:
        """Fills the cache, and makes the batches of several runs.

        Args:
            tokens: Number of new tokens.
            outputs: Tokens whose logits are computed: ``all``, ``last`` or ``none``.
        """
        for batch in self._made(0, self._past, "none", 0):
            self._decode(batch)
            self._api.llama_batch_free(batch)
        self._inputs = [self._made(self._past, tokens, outputs, 1 + i) for i in range(INPUTS)]
        self.has_logits = outputs != "none"

    def _made(self, first: int, count: int, outputs: str, seed: int) -> list[Any]:
        """Batches of so many drawn tokens."""
        random = np.random.default_rng(seed)
        found = []
        for begin in range(0, count, BATCH):
            size = min(BATCH, count - begin)
            batch = self._api.llama_batch_init(size, 0, 1)
            batch.n_tokens = size
            for i, token in enumerate(random.integers(0, self.vocabulary, size).tolist()):
                batch.token[i], batch.pos[i] = token, first + begin + i
                batch.n_seq_id[i], batch.seq_id[i][0] = 1, 0
                # llama-bench asks for the logits of the last token of each batch.
                batch.logits[i] = outputs == "all" or (outputs == "last" and i == size - 1)
            found.append(batch)
        return found

    def run(self) -> None:
        """The new tokens, after those in the cache."""
        self._api.llama_memory_seq_rm(self._memory, 0, self._past, -1)
        batches = self._inputs.pop(0)
        self._inputs.append(batches)
        for batch in batches:
            self._decode(batch)

    def _decode(self, batch: Any) -> None:
        status = self._api.llama_decode(self._context, batch)
        if status:
            raise self._library.failed(f"ended a run with status {status}")

    def wait(self) -> None:
        """Returns once the results are in memory."""
        self._api.llama_synchronize(self._context)

    def logits(self) -> Array:
        """Copy of the logits of the last token of the last run."""
        found = self._api.llama_get_logits_ith(self._context, -1)
        return np.array(np.ctypeslib.as_array(found, (self.vocabulary,)))

    def close(self) -> None:
        """Frees the memory."""
        for batch in chain.from_iterable(self._inputs):
            self._api.llama_batch_free(batch)
        self._api.llama_free(self._context)
        self._api.llama_model_free(self._model)


ATTENTION = {"auto": -1, "off": 0, "on": 1}
"""Numbers of the choices, as in llama.cpp."""

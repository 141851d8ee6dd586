"""Distributions of one module that are there for some tests only."""

from __future__ import annotations

import importlib
import os
from textwrap import dedent

TWIN = """
from dlbricks_onnxruntime.backend import OnnxruntimeBackend


class Twin(OnnxruntimeBackend):
    name = "twin"
"""


def install(patch, site, module, source, points):
    """Installs a distribution of one module in a folder; workers find it as well.

    Args:
        patch: Undoes it.
        site: The folder.
        module: Name of the module and of the distribution.
        source: The module's source.
        points: The distribution's entry points.
    """
    (site / f"{module}.py").write_text(dedent(source))
    info = site / f"{module}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(dedent(points))
    use(patch, site)


def use(patch, site):
    """Has this process and its workers find what is installed in a folder."""
    patch.syspath_prepend(str(site))
    paths = [str(site), os.environ.get("PYTHONPATH", "")]
    patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))
    importlib.invalidate_caches()


def install_twin(patch, site):
    """Installs a second backend that starts quickly: ONNX Runtime under the name twin."""
    points = "[dlbricks.backends]\ntwin = twin_backend:Twin\n"
    install(patch, site, "twin_backend", TWIN, points)

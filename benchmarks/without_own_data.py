"""The command dlbricks, as if the reference data lacked this processor.

python benchmarks/without_own_data.py estimate --precision 10% --backend onnxruntime net.onnx

The measurements of other systems still come with the package.
"""

import sys

from dlbricks_prediction import atlas, from_atlas, training_data

from dlbricks_core.cli import main
from dlbricks_core.machine.system import current_system

HERE = current_system().fingerprint


def elsewhere(backend: str | None = None) -> tuple[atlas.Contribution, ...]:
    """Contributions of other systems."""
    return tuple(each for each in atlas.shipped(backend) if each.system.fingerprint != HERE)


training_data.shipped = from_atlas.shipped = elsewhere

if __name__ == "__main__":
    sys.exit(main())

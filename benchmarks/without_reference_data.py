"""The command dlbricks, as if no measurements of other systems came with the package.

python benchmarks/without_reference_data.py estimate --measure --backend onnxruntime net.onnx
"""

import sys

from dlbricks_prediction import atlas

from dlbricks_core.cli import main

atlas.FOLDER /= "none"  # a folder that does not exist holds no contributions

if __name__ == "__main__":
    sys.exit(main())

"""Where tests find what several of them share."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent / "helpers"))

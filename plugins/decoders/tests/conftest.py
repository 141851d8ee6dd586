"""Tests here share the formula of their weights with the script that wrote the golden file."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

"""``python -m dlbricks_core.cli``: the same as the command ``dlbricks``."""

from dlbricks_core.cli import main

main()

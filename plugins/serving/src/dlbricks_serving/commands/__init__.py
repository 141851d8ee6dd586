"""The commands ``dlbricks serve`` and ``dlbricks advise``."""

"""Measuring: sessions that time networks, probes for other quantities, and workers."""

from dlbricks_core.measure.probe import Probe, Values

__all__ = ["Probe", "Values"]

"""Fleets: hosts that measure one suite together, connected by Dask distributed.

It adds the command ``dlbricks fleet``. Only this distribution imports Dask; the rest of DLBricks
runs without it.
"""

"""Graphs of models, drawn as SVG."""

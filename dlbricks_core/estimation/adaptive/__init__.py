"""Estimates from as few runs of whole models or bricks as their precision needs."""

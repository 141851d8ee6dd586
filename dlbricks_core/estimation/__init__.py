"""Estimates of models from measurements, stored observations and predictions."""

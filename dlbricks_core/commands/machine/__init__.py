"""Commands on this machine: readiness, calibration, surveys, names of systems."""

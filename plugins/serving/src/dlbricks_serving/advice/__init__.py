"""System and framework with which models are best."""

"""Figures: values with their uncertainty, how precise they are, and how they rank."""

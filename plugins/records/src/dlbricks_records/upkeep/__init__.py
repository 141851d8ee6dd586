"""Stores of earlier versions, which are upgraded, and damaged ones, which are read in part."""

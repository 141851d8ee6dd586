"""Steps that every layer goes through on its way into the canonical model, one a file."""

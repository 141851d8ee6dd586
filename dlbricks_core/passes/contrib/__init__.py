"""ONNX Runtime's own operators: facts for the IR, and definitions for other frameworks."""

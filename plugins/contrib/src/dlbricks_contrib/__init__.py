"""Operators of ONNX Runtime's own, ``com.microsoft``: for the IR, and for other frameworks."""

"""Evaluate ONNX models on columns of events."""

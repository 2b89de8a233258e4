"""Predict the time and memory of tasks from what earlier runs measured."""

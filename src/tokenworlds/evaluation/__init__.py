"""Evaluate agents and render the results: scores, curves, dreams, reports."""

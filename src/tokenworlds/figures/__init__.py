"""Figures of the papers, made with this library's recipes, runs and measurements."""

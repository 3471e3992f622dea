"""Codes and action of a step, brought together into one vector for the sequence model."""

"""Frames to discrete codes and back; one family member per file."""

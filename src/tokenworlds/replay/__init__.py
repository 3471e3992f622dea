"""Replay: steps on disk, read back as segments."""

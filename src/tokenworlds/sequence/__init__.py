"""Sequence models: functions of history, for which `scan` equals repeated `step`."""

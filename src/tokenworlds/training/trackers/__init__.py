"""Trackers: callbacks that copy the metrics of a run to a file or a service."""

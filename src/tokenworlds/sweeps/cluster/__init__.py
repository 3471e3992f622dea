"""Runs of a sweep on a Ray cluster. Only `connection` and `worker` run inside Ray."""

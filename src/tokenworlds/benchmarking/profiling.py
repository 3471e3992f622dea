"""A trace of one update of each learner, to be opened at ui.perfetto.dev or chrome://tracing."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from torch.profiler import ProfilerActivity, profile, record_function

from tokenworlds.benchmarking.subjects import Subject


def write_trace(path: Path, subjects: Sequence[Subject], rows: Mapping[str, int]) -> Path:
    """Update each learner once, on so many rows, and write down what was computed when."""
    acts = [
        (subject.name, subject.prepare(rows[subject.name]))
        for subject in subjects
        if subject.kind == "update"
    ]
    # The profiler would tell of its own start and stop in the midst of a table.
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    with profile(activities=[ProfilerActivity.CPU]) as trace:
        for name, act in acts:
            with record_function(f"update of {name}"):
                act()
    trace.export_chrome_trace(str(path))
    return path


def trace_path(path: Path, recipe: str, alone: bool) -> Path:
    """Where the trace of a recipe goes: a file of its own, as one of many is too much to open."""
    if alone:
        return path
    name = recipe.rpartition(":")[2]
    return path.with_name(f"{path.stem}-{name}{path.suffix}")

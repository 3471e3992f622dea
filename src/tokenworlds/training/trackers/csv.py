"""metrics.csv in the run folder: a row for each line of metrics.jsonl."""

import csv
import io

from tokenworlds.core import files
from tokenworlds.runs.events import read_metrics
from tokenworlds.training.callbacks import Event

FILE = "metrics.csv"


def write_csv(event: Event) -> None:
    """A callback: write the file anew at each checkpoint and at the end.

    Metrics appear one after the other, so columns are known only afterwards.
    """
    if event.kind not in ("checkpoint", "end"):
        return
    rows, _ = read_metrics(event.run)
    columns = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    files.replace_file(event.run / FILE, text.getvalue().encode())

"""Measure `tokenworlds report` over 130 runs: 26 Atari games, 5 seeds, invented scores.

    python benchmarks/report_speed.py [SEEDS]

Prints the seconds and the peak memory of the command, and the size of the page.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "comparison"))

from synthetic_runs import Invented, write_run

from tokenworlds.published import reference_sets

STEPS = 100_000
EVALUATIONS = 50
LOSSES = 30
COMMAND = """
import sys
import time
from pathlib import Path
from tokenworlds.cli import main
assert main(sys.argv[1:]) == 0
print(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0])
print(f"{time.process_time():.1f}")
"""


def write_runs(folder: Path, seeds: int) -> int:
    """Runs that end between random and twice human scores; returns their number."""
    games = reference_sets()["exact"]
    for number, (game, to) in enumerate(games.items()):
        end = to.random + (number % 8) / 4 * (to.human - to.random)
        for seed in range(seeds):
            run = Invented(
                env=f"atari:{game}",
                seed=seed,
                steps=STEPS,
                start=to.random,
                end=end,
                evaluations=EVALUATIONS,
                losses=LOSSES,
            )
            write_run(folder / f"{game}-s{seed}", run)
    return len(games) * seeds


def main(seeds: int = 5) -> None:
    with tempfile.TemporaryDirectory() as place:
        runs, page = Path(place) / "runs", Path(place) / "report.html"
        count = write_runs(runs, seeds)
        for words in (["runs", str(runs)], ["report", str(runs), "--out", str(page)]):
            begin = time.perf_counter()
            command = [sys.executable, "-c", COMMAND, *words]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            seconds, (peak, busy) = time.perf_counter() - begin, done.stdout.split()[-2:]
            cost = f"{seconds:.1f} s ({busy} s of a core), {int(peak) / 1024:.0f} MiB"
            print(f"{words[0]:8}{count} runs in {cost}")
        print(f"page    {page.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

"""What was measured, in lines for people."""

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction

from tokenworlds.benchmarking.codings import CODES
from tokenworlds.benchmarking.comparison import Change
from tokenworlds.benchmarking.documents import YARDSTICK, Account, Circumstances, speeds
from tokenworlds.benchmarking.figures import Figure

MIB = 2**20
COLUMNS = (
    f"  {'':12}{'rows x steps':>14}{'measured':>10}{'time':>12}{'spread':>8}{'cal':>10}"
    f"{'GFLOP':>10}{'share':>8}{'memory':>12}{'steps/s':>12}"
)


def heading(circumstances: Circumstances) -> str:
    """What all figures have in common."""
    threads = circumstances.threads
    return (
        f"{circumstances.env}, {threads} thread{'' if threads == 1 else 's'}, "
        f"{circumstances.seconds:g} s for each figure"
    )


def opening(recipe: str, size: str) -> str:
    """The line over the figures of a recipe, and their columns."""
    return f"\n{recipe} ({size})\n{COLUMNS}"


def figure_line(figure: Figure) -> str:
    """One figure; what was measured in part and scaled bears a ~."""
    mark = "~" if figure.is_scaled else ""
    measured = str(Fraction(figure.rows, figure.batch)) if figure.is_scaled else "all"
    work = f"{figure.batch} x {figure.steps}"
    share = f"{figure.share:.0%}" if figure.flops else "-"
    return (
        f"  {figure.name:12}{work:>14}{measured:>10}"
        f"{mark + duration(figure.seconds.median):>12}{f'±{figure.seconds.spread:.0%}':>8}"
        f"{mark + number(figure.cal):>10}{number(figure.flops / 1e9):>10}{share:>8}"
        f"{f'{mark}{figure.memory / MIB:,.0f} MiB':>12}{figure.steps_per_second:>12,.0f}"
    )


def step_lines(account: Account) -> Iterator[str]:
    """What the updates come to for one environment step."""
    cost = account.per_step
    for name, cal in cost.cal.items():
        unit = "batches" if name == CODES else "updates"
        often = f"{cost.updates[name]:>14.4f} {unit} for each environment step"
        yield f"  {name:12}{often}: {number(cal)} cal"
    calibrations = [figure.calibration.seconds for figure in account.figures]
    low, high = duration(min(calibrations)), duration(max(calibrations))
    yield f"  one cal was {low} to {high}"


def summary(accounts: Sequence[Account]) -> Iterator[str]:
    """Recipes side by side: learning for each environment step, in all and without autoencoders."""
    whole, rest = speeds(accounts)
    yield f"\n{'per environment step':30}{'cal':>10}{'time':>12}{f'against {YARDSTICK}':>16}"
    for account, speed in zip(accounts, whole, strict=True):
        yield summary_line(
            account, account.per_step.total_cal, account.per_step.total_seconds, speed
        )
    yield "without the autoencoder"
    for account, speed in zip(accounts, rest, strict=True):
        left = account.per_step.without_autoencoder
        yield summary_line(account, left.cal, left.seconds, speed)
    if None in whole:
        yield f"  measure {YARDSTICK} beside them to see how many times as fast they are"


def summary_line(account: Account, cal: float, seconds: float, speed: float | None) -> str:
    """What a recipe costs, and how many times as cheap as the yardstick that is."""
    against = "-" if speed is None else f"{number(speed)} x"
    name = f"{account.recipe} ({account.size})"
    return f"  {name:28}{number(cal):>10}{duration(seconds):>12}{against:>16}"


def change_lines(changes: Sequence[Change], notes: Sequence[str], source: str) -> Iterator[str]:
    """What was and what is."""
    yield f"\nagainst {source}: cal before, cal now, how many times as fast"
    yield from (f"  note: {note}" for note in notes)
    for change in changes:
        name = f"{change.recipe} ({change.size}) {change.name}"
        other = f"   {change.remark}" if change.remark else ""
        before, now = number(change.before), number(change.now)
        yield f"  {name:44}{before:>10}{now:>10}{f'{number(change.ratio)} x':>12}{other}"
    if not changes:
        yield "  no recipe is in both at the same size"


def number(value: float) -> str:
    """Three digits that matter, or all in front of the point."""
    if value == 0:
        return "0"
    digits = next((places for bound, places in ROUNDING.items() if abs(value) >= bound), 4)
    return f"{value:,.{digits}f}" if abs(value) >= 1e-3 else f"{value:.1e}"


ROUNDING: Mapping[float, int] = {100: 0, 10: 1, 1: 2, 0.1: 3}


def duration(seconds: float) -> str:
    """In seconds, or in thousandths of one."""
    return f"{number(seconds)} s" if seconds >= 1 else f"{number(1e3 * seconds)} ms"

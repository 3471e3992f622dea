"""User errors: one sentence with the value, what is allowed and the nearest match."""

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """A mistake that the user can fix; the command line prints it and exits with code 2."""


class NoModel(UserError):
    """A world without a model was asked to dream."""


def unknown(kind: str, value: str, allowed: Iterable[str]) -> UserError:
    names = sorted(allowed)
    spellings = {name.lower(): name for name in names}
    near = difflib.get_close_matches(value.lower(), spellings, n=1, cutoff=0.5)
    hint = f"; did you mean {spellings[near[0]]!r}?" if near else ""
    return UserError(f"unknown {kind} {value!r}: choose from {', '.join(names)}{hint}")


def missing_extra(feature: str, extra: str) -> UserError:
    return UserError(f"{feature} needs an extra: pip install 'tokenworlds[{extra}]'")

"""Commands that torchrun starts in several processes."""

from collections.abc import Iterator
from contextlib import contextmanager

from tokenworlds.commands.errors import Failure
from tokenworlds.core.errors import UserError
from tokenworlds.core.group import Group, RankLost, joined

USER_ERROR = 2


@contextmanager
def joining() -> Iterator[Group]:
    """Join the group of this process, if it has one. All ranks raise the user's errors; rank 0
    prints them."""
    try:
        with joined() as group:
            try:
                yield group
            except UserError:
                if group.leads:
                    raise
                raise SystemExit(USER_ERROR) from None
    except RankLost as error:
        raise Failure(str(error)) from error

"""Saved agents on the Hugging Face hub: `hub:user/name`, or `hub:user/name@revision`."""

import contextlib
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TypeGuard

from tokenworlds.agent import CONFIG, WEIGHTS
from tokenworlds.core.errors import UserError, missing_extra

PREFIX = "hub:"
NAME = re.compile(r"(?P<repository>[\w.-]+/[\w.-]+)(?:@(?P<revision>[\w./-]+))?")


def is_on_hub(place: object) -> TypeGuard[str]:
    return isinstance(place, str) and place.startswith(PREFIX)


@contextlib.contextmanager
def fetched(place: str, trust: bool = False) -> Iterator[Path]:
    """A folder with the weights and the configuration of an agent on the hub.

    Only these two files are downloaded. They are copied because the hub's cache consists of links,
    which no reader of a saved agent follows.
    """
    if trust:
        raise UserError(f"{place} cannot be trusted: pass your own code as modules instead")
    match = NAME.fullmatch(place.removeprefix(PREFIX))
    if match is None:
        raise UserError(f"{place!r} names no agent on the hub: write hub:USER/NAME")
    try:
        from huggingface_hub import hf_hub_download
    except ImportError:
        raise missing_extra(place, "hub") from None
    with tempfile.TemporaryDirectory() as folder:
        for name in (CONFIG, WEIGHTS):
            try:
                found = hf_hub_download(match["repository"], name, revision=match["revision"])
            # The client raises errors of its own, of its HTTP library and of the system.
            except Exception as error:
                reason = str(error).strip().splitlines()[0][:200] if str(error).strip() else ""
                text = f"{type(error).__name__}: {reason}"
                raise UserError(f"cannot get {name} of {place}: {text}") from error
            shutil.copyfile(found, Path(folder, name))
        yield Path(folder)

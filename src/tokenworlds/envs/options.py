"""Options of a Gymnasium environment, which are a part of its protocol.

`gymnasium,render=true,frame_skip=4` is the protocol `gymnasium` with two options. Every score is
stored with its protocol, so scores with different options are not mixed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from tokenworlds.core.errors import UserError, unknown

SEPARATOR = ","
WORDS = {"true": True, "false": False, "1": True, "0": False}


@dataclass(frozen=True, kw_only=True, slots=True)
class EnvOptions:
    """How an environment is observed and played; `ABOUT` says what each option does."""

    image_key: str = ""
    render: bool = False
    frame_skip: int = 1
    clip_rewards: bool = False
    time_limit: int = 0

    def __post_init__(self) -> None:
        if self.render and self.image_key:
            raise UserError(
                f"render=true and image_key={self.image_key}: choose the rendered frames or an "
                f"image of the observations"
            )

    @classmethod
    def read(cls, text: str) -> "EnvOptions":
        """The options of `render=true,frame_skip=4`."""
        return cls().updated([part for part in text.split(SEPARATOR) if part])

    def updated(self, assignments: Sequence[str]) -> "EnvOptions":
        """A copy with assignments like `frame_skip=4` applied."""
        values: dict[str, Any] = {}
        for assignment in assignments:
            name, equals, text = assignment.partition("=")
            if not equals:
                raise UserError(f"{assignment!r} is no option of an environment: write NAME=VALUE")
            if name not in ABOUT:
                raise unknown("option of an environment", name, ABOUT)
            values[name] = READERS[type(getattr(self, name))](name, text)
        return replace(self, **values)

    def __str__(self) -> str:
        """What `read` takes: the options that differ from their defaults, in a fixed order."""
        default = EnvOptions()
        names = [field.name for field in fields(self)]
        given = [name for name in names if getattr(self, name) != getattr(default, name)]
        return SEPARATOR.join(f"{name}={word(getattr(self, name))}" for name in given)


ABOUT = {
    "image_key": "key of the image in a Dict of observations; a.b is the key b of the Dict a",
    "render": "observe the frames that render() returns, not the observations",
    "frame_skip": "steps of the environment for each action; their rewards are summed",
    "clip_rewards": "rewards in [-1, 1] while training; evaluations are not clipped",
    "time_limit": "agent steps after which a game is truncated; 0: no limit but its own",
}


def word(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def read_flag(name: str, text: str) -> bool:
    if text.lower() not in WORDS:
        raise UserError(f"{name} takes true or false, not {text!r}")
    return WORDS[text.lower()]


def read_number(name: str, text: str) -> int:
    least = 0 if name == "time_limit" else 1
    if not text.isascii() or not text.isdigit() or not least <= int(text[:10]) < 2**31:
        raise UserError(f"{name} takes a whole number of {least} or more, not {text!r}")
    return int(text[:10])


def read_key(name: str, text: str) -> str:
    if not text or not text.isprintable() or set(text) & set(f"{SEPARATOR}="):
        raise UserError(f"{name} takes the key of an image, without ',' and '=', not {text!r}")
    return text


READERS = {bool: read_flag, int: read_number, str: read_key}


def split_protocol(protocol: str) -> tuple[str, EnvOptions]:
    """The name of a protocol, and the options behind it."""
    name, _, text = protocol.partition(SEPARATOR)
    return name, EnvOptions.read(text)


def join_protocol(name: str, options: EnvOptions) -> str:
    text = str(options)
    return f"{name}{SEPARATOR}{text}" if text else name


def with_options(protocol: str, options: Mapping[str, Any] | Sequence[str]) -> str:
    """A protocol with more options, `{"frame_skip": 4}` or `["frame_skip=4"]`.

    Without a name, as in `with_options("", ["render=true"])`, it is the environment's default.
    """
    if isinstance(options, Mapping):
        options = [f"{name}={word(value)}" for name, value in options.items()]
    name, present = split_protocol(protocol)
    return join_protocol(name, present.updated(options))

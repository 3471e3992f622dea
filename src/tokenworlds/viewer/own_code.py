"""Which code of the user a dream may execute: that which the user named on the command line.

Run folders are data. Without these options the viewer refuses agents with classes of the user, and
games of the user's environments.
"""

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenworlds.runs.own_code import Trust


@dataclass(frozen=True, slots=True)
class OwnCode:
    """Files with classes, the name of an environment, or with `trust` all that a run names."""

    recipe: tuple[str, ...] = ()
    env: str = ""
    trust: bool = False

    def to_argument(self) -> str:
        """For the process of an agent."""
        return json.dumps(asdict(self))

    @staticmethod
    def from_argument(text: str) -> "OwnCode":
        document = json.loads(text)
        return OwnCode(tuple(document["recipe"]), document["env"], document["trust"])

    def load(self) -> "Trust":
        """Execute the files. What they raise is a `UserError`."""
        from tokenworlds.envs.catalogue import canonical
        from tokenworlds.runs.own_code import Trust, load_files

        return Trust(load_files(self.recipe), self.env and canonical(self.env), self.trust)


NOTHING = OwnCode()

"""Where each weight of an agent is found in the files of other implementations."""

from tokenworlds.sharing.layouts.iris import IRIS
from tokenworlds.sharing.layouts.layout import Layout

LAYOUTS: dict[str, Layout] = {"iris": IRIS}
"""By the name of the recipe."""

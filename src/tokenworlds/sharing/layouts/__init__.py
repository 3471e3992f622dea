"""Where each weight of an agent is found in the files of other implementations."""

from tokenworlds.sharing.layouts.delta_iris import DELTA_IRIS
from tokenworlds.sharing.layouts.drama import DRAMA
from tokenworlds.sharing.layouts.iris import IRIS
from tokenworlds.sharing.layouts.layout import Layout
from tokenworlds.sharing.layouts.storm import STORM

LAYOUTS: dict[str, Layout] = {
    "iris": IRIS,
    "delta-iris": DELTA_IRIS,
    "storm": STORM,
    "drama": DRAMA,
}
"""By the name of the recipe."""

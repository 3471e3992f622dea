"""Write an agent to a folder that others can load."""

from pathlib import Path

from tokenworlds.agent import OpenedAgent
from tokenworlds.core.errors import UserError
from tokenworlds.sharing.card import write_card

RUN = "run.json"


def save_agent(
    opened: OpenedAgent, folder: str | Path, license: str = "", source: str = ""
) -> Path:
    """Weights, configuration and the model card. `source` says where imported weights are from."""
    if (Path(folder) / RUN).exists():
        raise UserError(f"{folder} is a run: an agent is saved to a folder of its own")
    path = opened.agent.save(folder, opened.env)
    write_card(path, opened, license, source)
    return path

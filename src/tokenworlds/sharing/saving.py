"""Write an agent to a folder that others can load."""

from pathlib import Path

from tokenworlds.agent import OpenedAgent, Training
from tokenworlds.core.errors import UserError
from tokenworlds.sharing.card import write_card
from tokenworlds.sharing.starts import write_starts
from tokenworlds.training.trainer import progress_of

RUN = "run.json"


def save_agent(
    opened: OpenedAgent,
    folder: str | Path,
    license: str = "",
    source: str = "",
    compact: bool = False,
) -> Path:
    """Weights, configuration, a few recorded steps and the model card.

    `source` says where imported weights are from.
    """
    if (Path(folder) / RUN).exists():
        raise UserError(f"{folder} is a run: an agent is saved to a folder of its own")
    path = opened.agent.save(folder, opened.env, training_of(opened), compact)
    write_starts(path, opened)
    write_card(path, opened, license, source, compact)
    return path


def training_of(opened: OpenedAgent) -> Training | None:
    spec, checkpoint = opened.spec, opened.checkpoint
    if spec is None or checkpoint is None:
        return opened.training
    return Training(spec.recipe_name, spec.size, spec.seed, progress_of(checkpoint).steps)

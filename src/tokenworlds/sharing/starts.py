"""A few recorded steps beside a saved agent, so that it can dream without its environment.

starts.safetensors holds the fields of a segment; its frames are one PNG, a row for each window.
"""

import io
from pathlib import Path

import numpy as np
import torch
from einops import rearrange
from PIL import Image, UnidentifiedImageError
from safetensors.torch import save
from torch import Tensor

from tokenworlds.agent import Agent, OpenedAgent
from tokenworlds.core import files
from tokenworlds.core.files import DamagedFile
from tokenworlds.core.seeding import numpy_generator
from tokenworlds.core.types import Segment
from tokenworlds.evaluation.dreams import sample_segment
from tokenworlds.runs.checkpoint import read_tensors
from tokenworlds.training.evaluation import open_replay

FILE = "starts.safetensors"
ROWS, STEPS = 4, 14
LONGEST = 2**24
FIELDS = ("first", "action", "reward", "terminated", "truncated", "mask")


def write_starts(folder: Path, opened: OpenedAgent) -> None:
    """Write windows of the run's replay; nothing for an agent without one, or with a short one."""
    if opened.run is None or opened.spec is None or opened.checkpoint is None:
        return
    try:
        replay = open_replay(opened.run, opened.spec, opened.agent, opened.checkpoint)
    except DamagedFile:
        return
    if replay.length < STEPS:
        return
    rng = numpy_generator(opened.spec.seed, "starts")
    segment = sample_segment(replay, count=ROWS, length=STEPS, generator=rng)
    content = {name: getattr(segment, name).contiguous() for name in FIELDS}
    files.replace_file(folder / FILE, save({**content, "frames": to_png(segment.frame)}))


def read_starts(folder: Path, agent: Agent) -> Segment | None:
    """The windows that `write_starts` wrote; None without the file."""
    if not (folder / FILE).is_file():
        return None
    found = read_tensors(files.read_bytes(folder, FILE, LONGEST), folder / FILE)
    try:
        first = found["first"]
        if first.ndim != 2 or not 0 < first.numel() <= LONGEST:
            raise ValueError("it has no steps")
        frame = from_png(found.pop("frames"), agent, *first.shape)
        given = {name: found[name] for name in FIELDS}
        action = agent.action_space.zeros(*first.shape)
        alike = {name: torch.empty(first.shape) for name in FIELDS} | {"action": action}
        if any(given[name].shape != alike[name].shape for name in FIELDS):
            raise ValueError("its fields have other shapes")
        return Segment(frame, **given)
    except (KeyError, ValueError, OSError, UnidentifiedImageError) as error:
        raise DamagedFile(folder / FILE, str(error)[:100]) from error


def to_png(frames: Tensor) -> Tensor:
    """[B, T, H, W, C] as the bytes of one picture."""
    pixels = rearrange(frames.cpu().numpy(), "b t h w c -> (b h) (t w) c")
    picture = Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels)
    buffer = io.BytesIO()
    picture.save(buffer, "PNG", optimize=True)
    return torch.frombuffer(bytearray(buffer.getvalue()), dtype=torch.uint8)


def from_png(content: Tensor, agent: Agent, rows: int, steps: int) -> Tensor:
    shape = agent.frame_shape
    with Image.open(io.BytesIO(content.numpy().tobytes()), formats=["PNG"]) as picture:
        if picture.size != (steps * shape.width, rows * shape.height):
            raise ValueError(f"its picture has {picture.width}x{picture.height} pixels")
        pixels = np.asarray(picture.convert("RGB" if shape.channels == 3 else "L"))
    pixels = pixels if pixels.ndim == 3 else pixels[..., None]
    frames = rearrange(pixels, "(b h) (t w) c -> b t h w c", b=rows, t=steps)
    return torch.from_numpy(np.ascontiguousarray(frames))

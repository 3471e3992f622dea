"""Write images as an animation; the suffix of the file chooses its format."""

import importlib.util
import io
import tempfile
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from PIL import Image

from tokenworlds.core.errors import UserError
from tokenworlds.core.files import replace_file

VIDEO = ".mp4"
ANIMATED = (".gif", VIDEO, ".webp")


def check_encoder(path: Path) -> None:
    """Raise unless the package that encodes files of this suffix is installed."""
    if path.suffix.lower() == VIDEO and importlib.util.find_spec("imageio_ffmpeg") is None:
        others = ", ".join(suffix for suffix in ANIMATED if suffix != VIDEO)
        raise UserError(
            f"{path} needs an extra: pip install 'tokenworlds[video]', or choose one of {others}"
        )


def write_animation(path: Path, images: Iterable[Image.Image], seconds: float) -> Path:
    """Write images of one size, each shown for so many seconds."""
    check_encoder(path)
    encode = encode_video if path.suffix.lower() == VIDEO else encode_loop
    return replace_file(path, encode(path, iter(images), seconds))


def encode_loop(path: Path, images: Iterator[Image.Image], seconds: float) -> bytes:
    """GIF or WebP, which starts again at its end."""
    buffer = io.BytesIO()
    options: dict[str, Any] = {"duration": round(1000 * seconds), "loop": 0, "lossless": True}
    form = path.suffix.lower()[1:]
    next(images).save(buffer, form, save_all=True, append_images=images, **options)
    return buffer.getvalue()


def encode_video(path: Path, images: Iterator[Image.Image], seconds: float) -> bytes:
    """H.264 with subsampled colours, which every browser and editor plays."""
    from imageio_ffmpeg import write_frames

    first = even(next(images))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "film.mp4")
        writer = write_frames(
            str(file),
            first.size,
            fps=1 / seconds,
            codec="libx264",
            quality=None,
            macro_block_size=2,
            output_params=["-crf", "16", "-preset", "slow", "-movflags", "+faststart"],
        )
        writer.send(None)
        for image in chain([first], map(even, images)):
            writer.send(image.tobytes())
        writer.close()
        return file.read_bytes()


def even(image: Image.Image) -> Image.Image:
    """The image with even sides, which subsampled colours need, perhaps a line smaller."""
    width, height = (side - side % 2 for side in image.size)
    return image.crop((0, 0, width, height))

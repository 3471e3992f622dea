"""The newest steps of every stream."""

import numpy as np
import pytest

from tokenworlds.core.description import override
from tokenworlds.core.errors import UserError
from tokenworlds.recipes.catalogue import load
from tokenworlds.replay.sampling import Latest, Uniform
from tokenworlds.replay.segments import Windows


def latest() -> Latest:
    return Latest.Config().build(batches={"behaviour": 3})


@pytest.mark.parametrize(("steps", "length"), [(9, 4), (4, 4), (9, 1)])
def test_one_window_of_each_stream_ends_with_its_last_step(steps: int, length: int) -> None:
    rng = np.random.default_rng(0)
    before = rng.bit_generator.state
    starts = latest().sample("behaviour", Windows(3, steps, length), 3, rng)
    assert starts.tolist() == [[stream, steps - length] for stream in range(3)]
    assert rng.bit_generator.state == before


@pytest.mark.parametrize("batch", [2, 4])
def test_the_batch_must_be_as_large_as_there_are_streams(batch: int) -> None:
    with pytest.raises(UserError, match=rf"learning\.behaviour\.batch={batch} .* choose 3"):
        latest().sample("behaviour", Windows(3, 9, 4), batch, np.random.default_rng(0))


def test_it_is_chosen_by_name() -> None:
    recipe = load("step-vq-m", "nano").recipe
    chosen = override(recipe, ["sampler=latest"])
    assert isinstance(chosen.sampler, Latest.Config)
    assert isinstance(override(chosen, ["sampler=uniform"]).sampler, Uniform.Config)

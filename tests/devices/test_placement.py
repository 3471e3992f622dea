"""Every recipe runs on a device that is not the CPU, and a tensor on the wrong one is caught.

The device is pretended, in a process of its own.
"""

import json
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tokenworlds.commands import card
from tokenworlds.recipes.catalogue import RECIPES

HERE = Path(__file__).parent
EVERYDAY = ("step-vq-m", "delta-iris", "dreamer-v3")
"""Recurrent, by token and recurrent by frame; the others take minutes."""
OTHERS = tuple(name for name in RECIPES if name not in EVERYDAY)


@cache
def errors(names: tuple[str, ...]) -> dict[str, str]:
    """What each recipe raised on the device, in one process for all of them."""
    words = [sys.executable, str(HERE / "recipes_on_device.py"), *names]
    done = subprocess.run(words, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stderr[-2000:]
    found = [json.loads(line) for line in done.stdout.splitlines()]
    return {each["recipe"]: each["error"] for each in found}


@pytest.mark.parametrize("name", EVERYDAY)
def test_a_recipe_acts_learns_dreams_and_resumes_exactly_on_the_device(name: str) -> None:
    assert errors(EVERYDAY)[name] == ""


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHERS)
def test_other_recipes_do_so_too(name: str) -> None:
    assert errors(OTHERS)[name] == ""


@pytest.mark.slow
@pytest.mark.parametrize("family", card.FAMILIES)
def test_doctor_finds_that_the_device_computes_what_the_cpu_computes(family: str) -> None:
    names = tuple(f"doctor:{each}" for each in card.FAMILIES)
    assert errors(names)[f"doctor:{family}"] == ""


PLANTS = {
    "a tensor made without a device": "aten.add.Tensor: other of shape [1, 8, ",
    "an index on the CPU": "aten.index.Tensor: indices of shape [1] is on cpu",
    "a generator of the CPU": "draws from a generator of cpu",
    "a constant that is no buffer": "aten.mul.Tensor: other of shape [",
}


@pytest.fixture(scope="module")
def caught() -> dict[str, str]:
    return errors(tuple(f"step-vq-m:{name}" for name in PLANTS))


@pytest.mark.parametrize("plant", PLANTS)
def test_a_misplaced_tensor_is_caught(plant: str, caught: dict[str, str]) -> None:
    error = caught[f"step-vq-m:{plant}"].strip().splitlines()[-1]
    assert error.startswith("tokenworlds.benchmarking.pretended_device.MixedDevices: ")
    assert PLANTS[plant] in error

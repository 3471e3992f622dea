import json
import subprocess
import sys
from dataclasses import asdict

import pytest

from tokenworlds.core.errors import UserError
from tokenworlds.envs import EnvSpec, make
from tokenworlds.envs.catalogue import best_return, canonical, example_spec, families


@pytest.mark.parametrize(
    ("given", "full"),
    [
        ("catch", "toy:catch"),
        ("toy:steer", "toy:steer"),
        ("atari:Pong", "atari:Pong"),
        ("atari:ms_pacman", "atari:MsPacman"),
        ("crafter:reward", "crafter"),
        ("minatar:SpaceInvaders", "minatar:space_invaders"),
        ("vizdoom:my_way_home", "vizdoom:MyWayHome"),
        ("miniworld:hallway", "miniworld:Hallway"),
        ("gym:CartPole-v1", "gym:CartPole-v1"),
        ("my_env.py:make", "python:my_env.py:make"),
        ("./games/../my_env.py:make", "python:my_env.py:make"),
        ("my_package.games:Maze", "python:my_package.games:Maze"),
    ],
)
def test_names_are_stored_in_full(given: str, full: str) -> None:
    assert canonical(given) == full
    assert canonical(full) == full


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("cathc", "catch"),
        ("Pong", "atari:Pong"),
        ("atary:Pong", "atari"),
        ("toy:ster", "steer"),
        ("atari:Pnog", "Pong"),
        ("atari:mspacmna", "MsPacman"),
        ("minatar:brekout", "breakout"),
        ("gym:CartPole", "CartPole-v1"),
        ("atari:", "atari:Pong"),
    ],
)
def test_an_unknown_name_is_an_error_with_the_nearest(name: str, nearest: str) -> None:
    with pytest.raises(UserError, match=f"did you mean '{nearest}'"):
        make(name)


def test_an_unknown_protocol_is_an_error_with_the_nearest() -> None:
    with pytest.raises(UserError, match=r"unknown protocol for atari:Pong .*'atari100k-sticky'\?"):
        make("atari:Pong", protocol="atari-sticky")
    with pytest.raises(UserError, match="choose from toy"):
        EnvSpec("catch", "atari100k")


def test_a_size_that_is_too_small_is_an_error() -> None:
    with pytest.raises(UserError, match="size 4"):
        make("catch", size=4)


@pytest.mark.parametrize(
    ("name", "package", "extra"),
    [
        ("atari:Pong", "ale_py", "atari"),
        ("crafter", "crafter", "crafter"),
        ("dmc:walker-walk", "dm_control", "control"),
        ("minatar:breakout", "minatar", "minatar"),
        ("minigrid:Empty-5x5-v0", "minigrid", "minigrid"),
        ("miniworld:Hallway", "miniworld", "miniworld"),
        ("vizdoom:Basic", "vizdoom", "vizdoom"),
        ("craftax:classic", "craftax", "craftax"),
    ],
)
def test_a_missing_extra_is_named_and_specs_still_work(
    monkeypatch: pytest.MonkeyPatch, name: str, package: str, extra: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    assert not {family.name: family.installed for family in families().values()}[
        name.partition(":")[0]
    ]
    spec = EnvSpec(name)
    with pytest.raises(UserError, match=rf"pip install 'tokenworlds\[{extra}\]'"):
        spec.make()


def test_a_spec_is_complete_and_survives_json() -> None:
    spec = EnvSpec("catch", size=32, grey=True)
    assert asdict(spec) == {"name": "toy:catch", "protocol": "toy", "size": 32, "grey": True}
    assert EnvSpec(**json.loads(json.dumps(asdict(spec)))) == spec
    assert spec.make().frame_shape.height == 32


def test_all_examples_can_be_made() -> None:
    for family in families().values():
        assert family.protocols
        assert family.about
        for name in family.examples:
            assert canonical(name) == name
            assert EnvSpec(name).protocol == next(iter(family.protocols))
            # XLA compiles Craftax for minutes; it has a test of its own.
            if family.installed and family.name != "craftax":
                example_spec(name, size=32).make().close()


def test_best_returns_are_known_for_the_toys_only() -> None:
    assert best_return("catch") == 1.0
    assert best_return("toy:steer") == pytest.approx(5.0)
    assert best_return("atari:Pong") is None


def test_a_step_of_atari_is_four_frames_and_one_of_dmc_two() -> None:
    assert EnvSpec("atari:Pong", "storm").frame_skip == 4
    assert EnvSpec("dmc:walker-walk").frame_skip == 2
    assert EnvSpec("catch").frame_skip == EnvSpec("crafter").frame_skip == 1


def test_the_families_are_found_and_the_built_in_one_is_first() -> None:
    assert list(families()) == [
        *("toy", "python", "atari", "craftax", "crafter", "dmc", "minatar"),
        *("minigrid", "miniworld", "vizdoom", "gym"),
    ]


def run(code: str) -> tuple[int, str, str]:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def test_names_and_families_import_no_optional_dependency() -> None:
    code = """
import sys
from tokenworlds.envs import EnvSpec
from tokenworlds.envs.catalogue import families
EnvSpec("dmc:walker-walk")
assert [family.installed for family in families().values()]
optional = {"ale_py", "crafter", "dm_control", "mujoco", "OpenGL", "minatar", "pygame"}
optional |= {"craftax", "jax", "minigrid", "miniworld", "pyglet", "vizdoom"}
print(optional & set(sys.modules))
"""
    assert run(code) == (0, "set()\n", "")


def test_environments_print_nothing_even_if_they_are_not_closed() -> None:
    # The description of cheetah makes MuJoCo log a warning.
    names = ["atari:Pong", "gym:CartPole-v1", "dmc:cheetah-run", "dmc:walker-walk"]
    names = [name for name in names if families()[name.partition(":")[0]].installed]
    code = f"""
from tokenworlds.envs.catalogue import example_spec
envs = [example_spec(name).make() for name in {names}]
[env.reset(0) for env in envs]
"""
    assert run(code) == (0, "", "")

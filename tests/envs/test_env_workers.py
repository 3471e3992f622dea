import json
import multiprocessing
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from test_vector_env import CATCH, random_actions, record

from tokenworlds.core.errors import UserError
from tokenworlds.envs import EnvSpec, VectorEnv, families
from tokenworlds.envs.vector import WorkerError

SPECS = [EnvSpec("steer", size=8), EnvSpec("minatar:seaquest", "minatar-sticky", size=10)]
INSTALLED = {family.name: family.installed for family in families().values()}
SPECS = [spec for spec in SPECS if INSTALLED[spec.name.partition(":")[0]]]


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_workers_change_nothing_but_the_place(spec: EnvSpec) -> None:
    here = VectorEnv(spec, num_envs=3, seed=4)
    actions = random_actions(here, 40)
    with VectorEnv(spec, num_envs=3, seed=4, workers=2) as there:
        np.testing.assert_array_equal(there.frames, here.frames)
        assert (there.frame_shape, there.action_space) == (here.frame_shape, here.action_space)
        assert record(there, actions) == record(here, actions)
        saved = there.state()
        assert json.loads(json.dumps(saved)) == here.state()
        assert record(there, actions) == record(here, actions)
        assert there.restore(saved) == here.restore(saved) == []
        assert record(there, actions) == record(here, actions)
    assert multiprocessing.active_children() == []


def test_an_error_in_a_worker_comes_out_with_its_text() -> None:
    envs = VectorEnv(CATCH, num_envs=2, seed=0, workers=1)
    with pytest.raises(
        WorkerError, match=r"(?s)environments 0 to 1 failed.*action 9: choose from 0\.\.2"
    ):
        envs.step(np.array([0, 9]))
    with pytest.raises(RuntimeError, match="closed"):
        envs.step(np.array([0, 0]))
    assert multiprocessing.active_children() == []


def test_a_users_mistake_stays_one() -> None:
    with pytest.raises(UserError, match="did you mean 'CartPole-v1'"):
        VectorEnv(EnvSpec("gym:CartPol-v1"), num_envs=2, seed=0, workers=1)


def test_a_worker_that_was_killed_is_told() -> None:
    envs = VectorEnv(CATCH, num_envs=2, seed=0, workers=1)
    (worker,) = multiprocessing.active_children()
    assert worker.pid is not None
    os.kill(worker.pid, signal.SIGKILL)
    with pytest.raises(WorkerError, match=r"environments 0 to 1 died \(exit code -9\)"):
        envs.step(np.array([0, 0]))


PARENT = """
from tokenworlds.envs import EnvSpec, VectorEnv
if __name__ == "__main__":
    envs = VectorEnv(EnvSpec("catch"), num_envs=2, seed=0, workers=1)
    print("ready", flush=True)
    input()
"""


def test_workers_end_with_a_parent_that_was_killed() -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    assert parent.stdin is not None
    assert parent.stdout.readline() == "ready\n"
    parent.kill()
    # The workers hold the same standard output: it closes when the last of them is gone.
    rest, _ = parent.communicate(timeout=60)
    assert rest == ""

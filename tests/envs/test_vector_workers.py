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
from tokenworlds.envs import EnvSpec, VectorEnv
from tokenworlds.envs.catalogue import families
from tokenworlds.envs.vector import EnvironmentFailed
from tokenworlds.envs.workers import WorkerError

SPECS = [EnvSpec("steer", size=8), EnvSpec("minatar:seaquest", "minatar-sticky", size=10)]
INSTALLED = {family.name: family.installed for family in families().values()}
SPECS = [spec for spec in SPECS if INSTALLED[spec.name.partition(":")[0]]]


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_trajectories_do_not_depend_on_workers(spec: EnvSpec) -> None:
    local = VectorEnv(spec, num_envs=3, seed=4)
    actions = random_actions(local, 40)
    with VectorEnv(spec, num_envs=3, seed=4, workers=2) as remote:
        np.testing.assert_array_equal(remote.frames, local.frames)
        assert (remote.frame_shape, remote.action_space) == (local.frame_shape, local.action_space)
        assert record(remote, actions) == record(local, actions)
        saved = remote.state()
        assert json.loads(json.dumps(saved)) == local.state()
        assert record(remote, actions) == record(local, actions)
        assert remote.restore(saved) == local.restore(saved) == []
        assert record(remote, actions) == record(local, actions)
    assert multiprocessing.active_children() == []


def test_an_error_in_a_worker_is_raised_with_its_traceback() -> None:
    envs = VectorEnv(CATCH, num_envs=2, seed=0, workers=1)
    before = envs.state()
    with pytest.raises(EnvironmentFailed, match=r"step 1 of game 0: .*action 9") as caught:
        envs.step(np.array([0, 9]))
    assert isinstance(caught.value.__cause__, WorkerError)
    assert "ValueError: action 9: choose from 0..2" in str(caught.value.__cause__)
    assert envs.state() == before
    with pytest.raises(RuntimeError, match="closed"):
        envs.step(np.array([0, 0]))
    assert multiprocessing.active_children() == []


def test_a_user_error_in_a_worker_stays_a_user_error() -> None:
    with pytest.raises(UserError, match="did you mean 'CartPole-v1'"):
        VectorEnv(EnvSpec("gym:CartPol-v1"), num_envs=2, seed=0, workers=1)


def test_a_killed_worker_is_reported_with_its_exit_code() -> None:
    envs = VectorEnv(CATCH, num_envs=2, seed=0, workers=1)
    (worker,) = multiprocessing.active_children()
    assert worker.pid is not None
    os.kill(worker.pid, signal.SIGKILL)
    before = envs.state()
    with pytest.raises(EnvironmentFailed, match=r"toy:catch: the worker of copies 0 to 1 died \("):
        envs.step(np.array([0, 0]))
    assert envs.state() == before


PARENT = """
from tokenworlds.envs import EnvSpec, VectorEnv
if __name__ == "__main__":
    envs = VectorEnv(EnvSpec("catch"), num_envs=2, seed=0, workers=1)
    print("ready", flush=True)
    input()
"""


def test_workers_exit_when_their_parent_is_killed() -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    assert parent.stdin is not None
    assert parent.stdout.readline() == "ready\n"
    parent.kill()
    # The workers share standard output, which closes when the last of them exits.
    rest, _ = parent.communicate(timeout=60)
    assert rest == ""

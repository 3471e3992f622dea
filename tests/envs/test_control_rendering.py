import gc
import threading

import numpy as np
import pytest
from env_trajectories import trajectory

from tokenworlds.envs import EnvSpec, VectorEnv, make
from tokenworlds.envs.control import PROTOCOLS, Control

pytest.importorskip("dm_control")


def test_sixteen_environments_render_independently_even_if_some_are_closed() -> None:
    envs = [make("dmc:pendulum-swingup", size=16, protocol="dmc-vision-flat") for _ in range(16)]
    frames = [env.reset(seed) for seed, env in enumerate(envs)]
    assert len({frame.tobytes() for frame in frames}) == 16
    for env in envs[::2]:
        env.close()
    for seed, env in list(enumerate(envs))[1::2]:
        np.testing.assert_array_equal(env.reset(seed), frames[seed])
        env.close()


def test_two_environments_play_different_games() -> None:
    spec = EnvSpec("dmc:cartpole-balance", "dmc-vision-flat")
    with VectorEnv(spec, num_envs=2, seed=0) as envs:
        assert (envs.frames[0] != envs.frames[1]).any()
        step = envs.step(np.zeros((2, 1), np.float32))
        assert step.reward[0] != step.reward[1]


def test_any_thread_can_step() -> None:
    env = make("dmc:cartpole-balance", size=16, protocol="dmc-vision-flat")
    expected = trajectory(env, seed=3, steps=5)
    results: list[str] = []
    other = threading.Thread(target=lambda: results.append(trajectory(env, seed=3, steps=5)))
    other.start()
    other.join()
    assert results == [expected]
    env.close()


@pytest.mark.parametrize("closed", [True, False])
def test_the_rendering_context_is_freed(closed: bool) -> None:
    env = Control("cartpole-balance", size=8, protocol=PROTOCOLS["dmc-vision-flat"])
    context = env._stage._environment.physics.contexts.gl
    assert not context.terminated
    if closed:
        env.close()
        env.close()
    del env
    gc.collect()
    assert context.terminated

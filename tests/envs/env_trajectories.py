"""Digests of games; run as a script, of games in a new process."""

import hashlib
import json
import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenworlds.core.protocols import Env
from tokenworlds.envs import EnvSpec


def random_action(env: Env, generator: np.random.Generator) -> NDArray[Any]:
    size = env.action_space.size
    if env.action_space.discrete:
        return np.asarray(generator.integers(size))
    return generator.uniform(-1, 1, size).astype(np.float32)


def trajectory(env: Env, seed: int, steps: int = 60, actions: int = 0) -> str:
    """A digest of everything an env returns in one game, or in its first steps."""
    generator = np.random.default_rng(actions)
    digest = hashlib.sha256(env.reset(seed).tobytes())
    for _ in range(steps):
        step = env.step(random_action(env, generator))
        digest.update(step.frame.tobytes())
        digest.update(repr((step.reward, step.terminated, step.truncated, step.over)).encode())
        if step.over:
            break
    return digest.hexdigest()


if __name__ == "__main__":
    specs = [EnvSpec(**spec) for spec in json.loads(sys.argv[1])]
    print(json.dumps([trajectory(spec.make(), seed=5) for spec in specs]))

import subprocess
import sys
from pathlib import Path

import pytest

RECORDING = """
import sys
from pathlib import Path
import numpy as np
from tokenworlds.core.types import ActionSpace, FrameShape
from tokenworlds.replay.sampling import gather
from tokenworlds.replay.store import ReplayStore

def anonymous():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon"))

rng, no = np.random.default_rng(0), np.zeros(1, bool)
actions, rewards = np.zeros(1, np.int64), np.zeros(1, np.float32)
frames = rng.integers(256, size=(64, 1, 32, 32, 3)).astype(np.uint8)
store = ReplayStore(
    Path(sys.argv[1]),
    frame_shape=FrameShape(32, 32, 3), action_space=ActionSpace(4), num_envs=1, chunk=1024,
)
before = anonymous()
for time in range(40_000):
    store.append(frames[time % 64], no, actions, rewards, no, no)
for start in range(0, 40_000 - 64, 64):
    gather(store, np.array([[0, start]]), 64)
print(anonymous() - before)
"""


@pytest.mark.skipif(not Path("/proc/self/status").is_file(), reason="reads memory from /proc")
def test_replay_may_be_larger_than_memory(tmp_path: Path) -> None:
    """The page cache of mapped files is not counted: the system can reclaim it."""
    command = [sys.executable, "-c", RECORDING, str(tmp_path)]
    grown = int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    data = 40_000 * 32 * 32 * 3
    assert grown < data / 5

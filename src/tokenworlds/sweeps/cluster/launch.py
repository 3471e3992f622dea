"""Start `tokenworlds`, and stop it when the parent is gone.

`python -m tokenworlds.sweeps.cluster.launch PARENT WORDS...`: a Ray worker that is killed cannot
stop its run. Without this the run would go on beside the one that continues it, on resources that
Ray has given away. The kernel sends SIGTERM instead, and the run saves and stops.

The kernel sends the signal once for each thread of the parent, and a second signal would end the
run before it has saved. So this process, which has one thread, stands between the two.
"""

import ctypes
import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType

PR_SET_PDEATHSIG = 1
SIGNALS = (signal.SIGTERM, signal.SIGINT)


def stop_with(parent: int) -> None:
    """Have SIGTERM sent when the parent ends, or now if it has ended. Linux only: elsewhere the
    run goes on, and the lock of its folder keeps others out."""
    if sys.platform != "linux":
        return
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGTERM)


def main(parent: int, words: Sequence[str]) -> int:
    """The exit code of the run, as shells report it."""
    # A Ray worker blocks SIGINT, and what it starts would inherit that.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    here = os.getpid()
    child = os.fork()
    if child == 0:
        stop_with(here)
        # The request to the kernel is kept across exec.
        os.execv(sys.executable, [sys.executable, "-m", "tokenworlds", *words])

    told: list[int] = []

    def tell_once(number: int, frame: FrameType | None) -> None:
        if not told:
            told.append(number)
            os.kill(child, number)

    for number in SIGNALS:
        signal.signal(number, tell_once)
    stop_with(parent)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))

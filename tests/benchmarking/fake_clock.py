"""A clock that goes only when work says how long it took."""

from collections.abc import Callable


class FakeClock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def work(self, *seconds: float) -> Callable[[], None]:
        """Something that takes so long, one time after the other and then as long as the last."""
        left = list(seconds)

        def act() -> None:
            self.now += left.pop(0) if len(left) > 1 else left[0]

        return act

"""What a piece of code imports, opens and starts, seen by Python's audit events."""

import contextlib
import os
import sys
import sysconfig
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

CANARIES = {"antigravity", "this"}
"""Modules that inputs name and that nothing else imports."""
STARTED = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "socket.connect")


class Audit:
    """Records violations while it is armed. A hook stays until the end of the process."""

    def __init__(self, inside: Path) -> None:
        """Files below `inside`, of Python and of installed packages may be opened."""
        paths = sysconfig.get_paths()
        own = Path(sys.modules["tokenworlds"].__path__[0])
        installed = [paths["stdlib"], paths["purelib"], sys.prefix, sys.base_prefix, *sys.path[1:]]
        allowed = [str(inside), str(own), *installed, "/proc", "/sys"]
        self.allowed = tuple(f"{os.path.realpath(path)}/" for path in allowed)
        loaded = {name.partition(".")[0] for name in sys.modules}
        self.packages = loaded | set(packages_distributions()) | sys.stdlib_module_names - CANARIES
        self.violations: list[str] = []
        self.armed = False
        sys.addaudithook(self._hook)

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Within the block, raise `AssertionError` afterwards if something was violated."""
        self.violations, self.armed = [], True
        try:
            yield
        finally:
            self.armed = False
        assert not self.violations, self.violations[0]

    def _hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.armed:
            return
        if event in STARTED:
            self.violations.append(f"{event} {arguments[:1]}")
        elif event == "import" and not self._known(str(arguments[0])):
            self.violations.append(f"imports {arguments[0]}")
        elif event == "open" and not self._allowed(arguments[0]):
            self.violations.append(f"opens {arguments[0]!r}")

    def _known(self, module: str) -> bool:
        return module.partition(".")[0] in self.packages

    def _allowed(self, path: Any) -> bool:
        """Descriptors were opened before; relative paths are those of a folder's entries."""
        if not isinstance(path, str | bytes | os.PathLike):
            return True
        text = os.fsdecode(path)
        if not os.path.isabs(text):
            return ".." not in text.split("/")
        return f"{os.path.realpath(text)}/".startswith((*self.allowed, "/dev/null/"))

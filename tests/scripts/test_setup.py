"""scripts/setup: environments that it must not touch."""

import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_an_environment_behind_a_link_is_left_alone(tmp_path: Path) -> None:
    other, checkout = tmp_path / "other", tmp_path / "checkout"
    (other / "bin").mkdir(parents=True)
    (other / ".set-up").write_text("/another/checkout\n", "utf-8")
    (checkout / "scripts").mkdir(parents=True)
    for name in ("scripts/setup", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, checkout / name)
    (checkout / ".venv").symlink_to(other)
    done = subprocess.run(
        ["bash", "scripts/setup"], cwd=checkout, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert f".venv is a link to {other}" in done.stderr
    assert (other / ".set-up").exists()

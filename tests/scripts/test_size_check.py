import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "scripts" / "size_check.py"


def run_on(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    (folder / "src").mkdir()
    (folder / "src" / "long.py").write_text(text)
    return subprocess.run(
        [sys.executable, SCRIPT], cwd=folder, capture_output=True, text=True, check=False
    )


def function_of(lines: int) -> str:
    return "def grown():\n" + "    pass\n" * (lines - 1)


def test_a_file_and_a_function_at_their_limits_pass(tmp_path: Path) -> None:
    done = run_on(tmp_path, function_of(40) + "x = 1\n" * 360)
    assert done.returncode == 0


def test_a_long_file_is_named(tmp_path: Path) -> None:
    done = run_on(tmp_path, "x = 1\n" * 401)
    assert done.returncode == 1
    assert "src/long.py: 401 lines" in done.stdout


def test_a_long_function_is_named_even_inside_a_class(tmp_path: Path) -> None:
    body = "".join(f"    {line}\n" for line in function_of(41).splitlines())
    done = run_on(tmp_path, "class Holder:\n" + body)
    assert done.returncode == 1
    assert "src/long.py:2: grown has 41 lines" in done.stdout

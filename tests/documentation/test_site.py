"""The documentation site builds without a warning and asks no other server for anything."""

import re
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
LOADING = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}
"""Elements by which a page loads files, and the attribute that names the file."""


class Loaded(HTMLParser):
    """The addresses that a page loads when it is opened."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        if tag in LOADING and named.get("rel") not in ("canonical", "next", "prev"):
            self.addresses.append(named.get(LOADING[tag]) or "")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = ["bash", str(ROOT / "scripts" / "docs"), "--site-dir", str(folder)]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


def test_every_page_is_on_the_site(site: Path) -> None:
    pages = [path.relative_to(DOCS).with_suffix(".html") for path in DOCS.rglob("*.md")]
    assert pages
    assert [str(page) for page in pages if not (site / page).is_file()] == []


def test_pages_load_nothing_from_other_servers(site: Path) -> None:
    foreign = []
    for page in site.rglob("*.html"):
        parser = Loaded()
        parser.feed(page.read_text())
        foreign += [each for each in parser.addresses if re.match(r"(https?:)?//", each)]
    styles = "".join(path.read_text() for path in site.rglob("*.css"))
    assert foreign == []
    assert not re.search(r"url\(['\"]?(https?:)?//", styles)


def test_the_reference_has_everything_that_is_public(site: Path) -> None:
    import tokenworlds

    text = (site / "reference" / "api.html").read_text()
    names = {anchor.rpartition(".")[2] for anchor in re.findall(r'id="(tokenworlds[\w.]+)"', text)}
    assert set(tokenworlds.__all__) <= names

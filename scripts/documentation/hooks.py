"""What MkDocs does not do by itself: equations without scripts, and links to files outside docs/.

GitHub renders the same Markdown: fences of the language `math`, and $`x`$ inside a line.
"""

import posixpath
import re
from pathlib import Path

from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
COPIES = "repository/"
"""Where the site keeps the files of the repository that pages link to."""
BLOCK = re.compile(r"^```math\n(.*?)^```$", re.S | re.M)
INLINE = re.compile(r"\$`([^`\n]+)`\$")
LINK = re.compile(r"\[([^\]\n]+)\]\((\.\./[^)#\s]+)([^)\s]*)\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the files that pages link to outside docs/."""
    for page in files.documentation_pages():
        for _, link, _ in LINK.findall(page.content_string):
            place = outside(link, page)
            if place and (ROOT / place).is_file() and not files.get_file_from_path(COPIES + place):
                files.append(File.generated(config, COPIES + place, abs_src_path=str(ROOT / place)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    text = BLOCK.sub(lambda found: f'<div class="equation">{equation(found[1])}</div>', markdown)
    # Markdown takes <math> at the beginning of a line for a block, and <span> not.
    text = INLINE.sub(lambda found: f"<span>{equation(found[1], 'inline')}</span>", text)
    return LINK.sub(lambda found: linked(found, page.file), text)


def equation(latex: str, display: str = "block") -> str:
    markup = convert(" ".join(latex.split()), display=display)
    if unknown := re.search(r"<mi>(\\.*?|&)</mi>", markup):
        raise PluginError(f"latex2mathml does not know {unknown[1]} in {latex!r}")
    return markup


def linked(link: re.Match[str], page: File) -> str:
    """The link, to the copy of a file outside docs/; only the text for a folder."""
    text, target, anchor = link.groups()
    place = outside(target, page)
    if not place:
        return link[0]
    if (ROOT / place).is_dir():
        return text
    copy = posixpath.relpath(COPIES + place, posixpath.dirname(page.src_uri) or ".")
    return f"[{text}]({copy}{anchor})"


def outside(link: str, page: File) -> str:
    """The path of a linked file in the repository, if it is not in docs/."""
    place = posixpath.normpath(posixpath.join(posixpath.dirname(page.src_uri), link))
    return place.removeprefix("../") if place.startswith("../") else ""

"""What the site does with the pages: they stay the files that are read and tested as they are.

CONTRIBUTING.md, SECURITY.md and CHANGELOG.md become pages too. Links that leave docs/ become the
name of what they point at, since the site does not hold the repository. Examples in docstrings are
shown as code.
"""

import re
from pathlib import Path, PurePosixPath
from posixpath import normpath

from markdown import Extension, Markdown
from markdown.preprocessors import Preprocessor
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
FROM_ABOVE = {
    name: f"{name[:-3].lower()}.md" for name in ("CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")
}
LINK = re.compile(r"(?<!!)\[(?P<text>[^\]]+)\]\((?P<path>[^)\s#:]+)(?P<anchor>#[^)\s]*)?\)")


class ExamplesAsCode(Preprocessor):
    """Fences around what starts with >>>, up to the next empty line."""

    def run(self, lines: list[str]) -> list[str]:
        found: list[str] = []
        inside = False
        for line in (*lines, ""):
            if line.startswith(">>> ") and not inside:
                found.append("```pycon")
                inside = True
            if inside and not line.strip():
                found.append("```")
                inside = False
            found.append(line)
        return found


class Examples(Extension):
    """Before fences are looked for, which have a priority of 25."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802
        md.preprocessors.register(ExamplesAsCode(md), "examples", 26)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    config.markdown_extensions.append(Examples())  # type: ignore[arg-type]
    return config


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the pages that live beside docs/, not in it."""
    for name, page in FROM_ABOVE.items():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / name)))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn links to the repository into links within the site, or into words."""
    if page.file.src_uri == "index.md":
        page.meta["hide"] = ["navigation", "toc"]
    folder = PurePosixPath("docs") / PurePosixPath(page.file.src_uri).parent
    if page.file.src_uri in FROM_ABOVE.values():
        folder = PurePosixPath()
    return LINK.sub(lambda link: _within_the_site(link, folder), markdown)


def _within_the_site(link: re.Match[str], folder: PurePosixPath) -> str:
    target = PurePosixPath(normpath(folder / link["path"]))
    if target.parts[0] == "docs" and folder.parts:
        return link[0]
    if target.parts[0] == "docs":
        return f"[{link['text']}]({target.relative_to('docs')}{link['anchor'] or ''})"
    if str(target) in FROM_ABOVE:
        return f"[{link['text']}]({FROM_ABOVE[str(target)]}{link['anchor'] or ''})"
    words = link["text"].strip("`")
    return f"`{target}`" if words == str(target) else f"{link['text']} (`{target}`)"

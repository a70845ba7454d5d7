"""Hooks of mkdocs: patterns in the navigation, notebooks as pages, and links out of docs/.

A page links to other files of the repository as they lie there, which is right for whoever reads the sources. On the
site, such a link leads to a page made of that file.
"""

from __future__ import annotations

import fnmatch
import posixpath
import re
import tomllib
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

from notebook_pages import as_markdown

# Markdown files beside docs/ that are pages of the site.
# mkdocs takes a README.md for the front page.
PROJECT_PAGES = {name: name for name in ("CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")} | {"README.md": "readme.md"}
LANGUAGES = {".cc": "cpp", ".h": "cpp", ".hpp": "cpp", ".c": "c", ".rs": "rust", ".py": "python", ".txt": "cmake"}
LINK = re.compile(r"\[(?P<text>(?:[^\[\]]|\[[^\]]*\])*)\]\((?P<target>[^)\s#]+)(?P<anchor>#[^)\s]*)?\)")
BLOCK = re.compile(r"(^```.*?^```)", re.S | re.M)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Puts pages in place of the patterns of the navigation, and takes the addresses from pyproject.toml."""
    root = _root(config)
    urls = tomllib.loads((root / "pyproject.toml").read_text())["project"].get("urls", {})
    config.repo_url = urls.get("Repository")
    config.site_url = urls.get("Documentation")
    docs = Path(config.docs_dir)
    pages = {path.relative_to(docs).as_posix() for path in docs.rglob("*.md")}
    pages |= {f"notebooks/{path.stem}.md" for path in (root / "notebooks").glob("*.ipynb")}
    config.nav = _expanded(config.nav, pages - set(_named(config.nav)))
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the notebooks, the project's own pages, and the sources that pages link to."""
    root = _root(config)
    for path in sorted((root / "notebooks").glob("*.ipynb")):
        files.append(File.generated(config, f"notebooks/{path.stem}.md", content=as_markdown(path)))
        files.append(File.generated(config, f"notebooks/{path.name}", abs_src_path=str(path)))
    for name, page_name in PROJECT_PAGES.items():
        files.append(File.generated(config, page_name, abs_src_path=str(root / name)))
    pages = [file for file in files if file.is_documentation_page()]
    for page in pages:  # it grows: sources link to others
        for link in LINK.finditer(BLOCK.sub("", page.content_string)):
            source = _in_repository(page.src_uri, link["target"])
            if source is None or files.get_file_from_path(_site_page(source)) or not (root / source).is_file():
                continue
            text = _source_page(source, (root / source).read_text())
            level = InclusionLevel.NOT_IN_NAV
            pages.append(File.generated(config, _site_page(source), content=text, inclusion=level))
            files.append(pages[-1])
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Makes links to files of the repository links to their pages."""

    def rewritten(link: re.Match[str]) -> str:
        source = _in_repository(page.file.src_uri, link["target"])
        if source is None:
            return link[0]
        target = posixpath.relpath(_site_page(source), posixpath.dirname(page.file.src_uri) or ".")
        return f"[{link['text']}]({target}{link['anchor'] or ''})"

    parts = BLOCK.split(markdown)
    return "".join(part if part.startswith("```") else LINK.sub(rewritten, part) for part in parts)


def _root(config: MkDocsConfig) -> Path:
    return Path(config.config_file_path).parent


def _named(nav: Any) -> list[str]:
    """All pages that the navigation names without a pattern."""
    if isinstance(nav, str):
        return [] if "*" in nav else [nav]
    return [name for entry in (nav.values() if isinstance(nav, dict) else nav) for name in _named(entry)]


def _expanded(entry: Any, free: set[str]) -> Any:
    """The navigation with pages for patterns; takes them out of `free`. A section without pages is left out."""
    if isinstance(entry, dict):
        found = {title: _expanded(value, free) for title, value in entry.items()}
        return {title: value for title, value in found.items() if value != []}
    if isinstance(entry, list):
        expanded: list[Any] = []
        for one in entry:
            if isinstance(one, str) and "*" in one:
                folder = posixpath.dirname(one)
                matching = [p for p in sorted(free) if fnmatch.fnmatch(p, one) and posixpath.dirname(p) == folder]
                free.difference_update(matching)
                expanded += matching
            else:
                expanded += [value] if (value := _expanded(one, free)) else []
        return expanded
    return entry


def _in_repository(page: str, target: str) -> str | None:
    """The path in the repository of what a page links to, or None for an address and for a page of docs/ as it is."""
    if "://" in target or target.startswith(("mailto:", "/")):
        return None
    # The project's own pages lie beside docs/, all others in it.
    folder = "" if page in PROJECT_PAGES.values() else posixpath.dirname(f"docs/{page}")
    if page.startswith("notebooks/"):
        folder = "notebooks"
    if page.startswith("files/"):
        folder = posixpath.dirname(page.removeprefix("files/"))
    path = posixpath.normpath(posixpath.join(folder, target))
    return None if path.startswith("docs/") and folder.startswith("docs") else path


def _site_page(source: str) -> str:
    """The page of the site for a file of the repository."""
    if source.startswith("docs/"):
        return source.removeprefix("docs/")
    if source.startswith("notebooks/"):
        return source.removesuffix(".ipynb") + ".md"
    if source in PROJECT_PAGES:
        return PROJECT_PAGES[source]
    return f"files/{source}.md"


def _source_page(source: str, text: str) -> str:
    if source.endswith(".md"):
        return text
    language = LANGUAGES.get(Path(source).suffix, "text")
    return f"# {source}\n\n```{language}\n{text}```\n"

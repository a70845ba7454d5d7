"""A griffe extension: makes the docstrings of jax_ipu what mkdocstrings expects, and reports those that lack.

* ``:class:`Name` `` and the like become cross-references, documents become links, and "Example" a section of its own.
* The options of :class:`jax_ipu.Config` get the text of their descriptors.
* Every public name of the pages in docs/reference/ must have a docstring.
"""

from __future__ import annotations

import ast
import logging
import re
from pathlib import Path
from typing import Any

import griffe

# A warning of this logger fails the build.
logger = logging.getLogger("mkdocs.plugins.griffe")

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
# Modules and objects of one name: the entry of the object.
ENTRIES = {"jax_ipu.config": "jax_ipu.config.Config", "jax_ipu.counters": "jax_ipu.counters.counters"}
ROLE = re.compile(r":(?:class|func|meth|mod|data|attr):`~?(?P<name>[\w.]+)`")


class Docstrings(griffe.Extension):
    """Loaded by the options of mkdocstrings in mkdocs.yml."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Rewrites one docstring, once it has been read."""
        if obj.docstring is not None:
            text = re.sub(r"^( *)Example:$", r"\1Examples:", obj.docstring.value, flags=re.M)
            text = re.sub(r"(?<![`\w/])docs/(\w+\.md)\b", r"[docs/\1](../\1)", text)
            obj.docstring.value = ROLE.sub(_reference, text)

    def on_attribute_instance(self, *, attr: griffe.Attribute, **kwargs: Any) -> None:
        """Gives an option of the configuration its text and its variable."""
        value = attr.value
        if isinstance(value, griffe.ExprCall) and str(value.function) == "_Option" and attr.docstring is None:
            default, _, text = value.arguments
            variable = f"JAX_IPU_{attr.name.upper()}"
            attr.docstring = griffe.Docstring(
                f"{ast.literal_eval(str(text))} Default: `{default}`. Environment variable: `{variable}`.", parent=attr
            )
            attr.value = None

    def on_package(self, *, pkg: griffe.Module, **kwargs: Any) -> None:
        """Warns about every documented name without a docstring."""
        for page in sorted(REFERENCE.glob("*.md")):
            for path in re.findall(r"^::: (\S+)", page.read_text(), re.M):
                if path.split(".")[0] == pkg.name:
                    _check(_found(pkg, path))


def _found(pkg: griffe.Module, path: str) -> griffe.Object:
    found: Any = pkg
    for name in path.split(".")[1:]:
        found = found.members[name]
        if found.is_alias:
            found = found.final_target
    return found  # type: ignore[no-any-return]


def _check(obj: griffe.Object) -> None:
    if obj.docstring is None:
        logger.warning("%s has no docstring (%s:%s)", obj.path, obj.filepath, obj.lineno)
    described = _described_attributes(obj)
    for name, member in obj.members.items():
        if name.startswith("_") or (obj.is_module and name not in (obj.exports or ())):
            continue
        if member.is_alias:
            if not obj.is_module:
                continue
            member = member.final_target
        if member.is_attribute and name in described:
            continue
        if not member.is_module:
            _check(member)


def _described_attributes(obj: griffe.Object) -> set[str]:
    """The attributes that the docstring of a class has in a section of its own; two may share an entry."""
    if obj.docstring is None:
        return set()
    text = re.search(r"^Attributes:\n((?:[ \t].*\n?|\n)*)", obj.docstring.value, re.M)
    entries = re.findall(r"^ {4}(\w[\w, ]*):", text[1], re.M) if text else []
    return {name.strip() for entry in entries for name in entry.split(",")}


def _reference(role: re.Match[str]) -> str:
    name = role["name"]
    return f"[`{name}`][{ENTRIES.get(name, name)}]"

"""Modules that a Python text starts in a process: ``subprocess.run([sys.executable, "-m", "lab.cli"], cwd=".")``."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import lru_cache
from os.path import basename, normpath
from typing import NamedTuple

from trainables.contract.expressions import last_name, texts_in, tree_of, values_of_names
from trainables.contract.programs import modules_in

STARTER = re.compile(r"\w*(accelerate|executable|interpreter|pypy|python|torchrun)[\w.]*", re.IGNORECASE)
"""Pattern of the name of a program that runs modules, or of a variable with its path, as in ``sys.executable``."""
FLAG = re.compile(rb"-[a-zA-Z]*m|--module")
"""Pattern in every text that starts a module."""
COMPUTED = "{}"
"""Word in place of one that is computed."""


class Started(NamedTuple):
    """What a Python text starts in other processes.

    Attributes:
        modules: Modules after ``-m`` in its lists.
        folders: Paths that it gives as ``cwd``.
    """

    modules: frozenset[str] = frozenset()
    folders: frozenset[str] = frozenset()


def started_in(content: bytes) -> Started:
    """Return what a Python text starts. Return nothing for another text."""
    return _started_in(content) if FLAG.search(content) else Started()


@lru_cache(maxsize=256)
def _started_in(content: bytes) -> Started:
    if (tree := tree_of(content)) is None:
        return Started()
    nodes = list(ast.walk(tree))
    lists = [node.elts for node in nodes if isinstance(node, ast.List | ast.Tuple)]
    modules = frozenset(module for elements in lists for module in modules_in(list(_words_after_starter(elements))))
    if not modules:
        return Started()
    known = values_of_names(tree)
    given = [word.value for node in nodes if isinstance(node, ast.Call) for word in node.keywords if word.arg == "cwd"]
    folders = ("/".join(texts_in(value, dict(known))) for value in given)
    return Started(modules, frozenset(normpath(folder) for folder in folders if folder and "\0" not in folder))


def _words_after_starter(elements: list[ast.expr]) -> Iterator[str]:
    """Yield the words of a command after the program that runs modules. Other programs have other options ``-m``."""
    has_starter = False
    for element in elements:
        text = element.value if isinstance(element, ast.Constant) and isinstance(element.value, str) else ""
        if has_starter:
            yield text or COMPUTED
        has_starter = has_starter or STARTER.fullmatch(basename(text) or last_name(element)) is not None

"""Source of a family from outside this project: a hash of it, and whether it has changed.

A run's key covers its settings, not the code of ``train``. So each run keeps a hash of the files that
:func:`trainables.contract.user_modules.files_of` returns. Comments and empty lines do not change the hash.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path

from trainables.contract.file_hashes import hash_of_files
from trainables.contract.finder import is_outside
from trainables.contract.notebook_classes import attributes_may_be_filled, hash_of_class
from trainables.contract.present_code import code_held, imported_hash
from trainables.contract.user_modules import file_of

TRAINING_PACKAGES = ("trainables", "search_spaces")
"""Packages of this project whose code decides what is trained. A checkout may have families of the user in them."""
OTHER_PACKAGES = ("trainables/contract", "trainables/probes", "trainables/script")
"""Packages in them whose code does not decide that."""
SOURCES = (".py", ".cpp")
"""Suffixes of their source files."""


def source_hash(name: str) -> str:
    """Return the hash of the code of ``module:Class``, which has been imported.

    Return an empty string if the class belongs to this project or its code is unknown.
    """
    module_name, colon, class_name = name.partition(":")
    module = sys.modules.get(module_name)
    if not colon or module is None or not is_outside(module_name):
        return ""
    if file_of(module_name) is None:
        return hash_of_class(getattr(module, class_name, None))
    return imported_hash(module_name)


@contextmanager
def sweep_of(names: Sequence[str]) -> Iterator[None]:
    """Keep the code of a sweep's classes, ``module:Class``, to its end.

    Within the context, their modules are not imported anew. What training changes in the attributes of a class in a
    notebook does not change its hash.
    """
    with ExitStack() as stack:
        stack.enter_context(code_held(names))
        for name in names:
            module_name, colon, class_name = name.partition(":")
            if colon and is_outside(module_name) and file_of(module_name) is None:
                kind = getattr(sys.modules.get(module_name), class_name, None)
                stack.enter_context(attributes_may_be_filled(kind))
        yield


ROOT = Path(__file__).parent.parent.parent


@cache
def hash_of_training_code(root: Path = ROOT) -> str:
    """Return the hash of this project's code for training, as it was when this process first asked for it.

    Versions of built-in families guard their keys. But a user with a checkout may edit a task and forget the version.
    """
    others = {root / name for name in OTHER_PACKAGES}
    paths = (path for name in TRAINING_PACKAGES for path in (root / name).rglob("*") if others.isdisjoint(path.parents))
    # Editors keep hidden files and links to nothing next to a file that is open.
    files = [path for path in paths if path.suffix in SOURCES and path.is_file() and not path.name.startswith(".")]
    return hash_of_files({file.relative_to(root).as_posix(): file for file in files})

"""Names of files in the text of programs: the words of a shell, and the texts in programs of other languages."""

from __future__ import annotations

import ast
import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice, pairwise
from pathlib import Path

from trainables.contract.expressions import tree_of
from trainables.contract.programs import PROGRAM_SUFFIXES, PYTHON_SUFFIXES, SHELL_SUFFIXES
from trainables.contract.settings import SettingsError
from trainables.contract.user_code import PYTHON_PATH
from trainables.script import placeholders

INTERPRETER = re.compile(r"(python|pypy)[\d.]*")
"""Pattern of the file names of Python interpreters. They run code, but are not the code."""
SHELL = re.compile(rb"#![^\n]*\b(ba|da|k|z)?sh\b")
"""Pattern of the first line of a shell script."""
MOST_NAMES = 2_000
"""Number of words or texts of a file that are looked up as names of files. A bundle of scripts may have many more."""
SETTINGS_SUFFIXES = (
    *(".cfg", ".conf", ".env", ".gin", ".ini", ".json", ".jsonnet", ".lock", ".properties", ".toml", ".yaml"),
    ".yml",
)
"""Ends, in lower case, of the names of files with settings. A file may be named `.env`."""
EXPANDED = re.compile(r".*(\$\{[^}]*\}|\$\w+|\$|[)`])")
"""Pattern of the part of a word up to its last variable or command, which only a shell can replace by its text."""
REDIRECTS = re.compile(r"\d*>>?|tee")
"""Pattern of a word of a shell before the name of a file that is written."""
WRITTEN = re.compile(r"(^|_)(checkpoint|history|log|metrics|out|output|results?|save)s?(_|$)", re.IGNORECASE)
"""Pattern in the name of a variable with a file that a program writes."""
WRITES = re.compile(r"-o|--?(checkpoint|history|log|metrics|out|output|results|save)[\w-]*")
"""Pattern of an option of a program with the name of a file or directory that it writes."""
MOST_SHEBANG_BYTES = 256
"""Number of bytes of a file in which the name of its interpreter is looked for."""
COMMENT = re.compile(r"\s*#")
"""Pattern at the beginning of a line that is a comment."""
TRAILING_COMMENT = re.compile(r"\s#.*")
"""Pattern of a comment at the end of a line."""
MARKS = ";&|()<>\"'"
"""Signs of a shell around a word."""
QUOTED = re.compile(r"""(["'])([^"'\n]{1,255})\1""")
"""Pattern of a short text in a program."""


def has_program_suffix(name: str) -> bool:
    """Return True for the name of a file that another program runs."""
    return Path(name).suffix.lower() in PROGRAM_SUFFIXES


def is_program(file: Path) -> bool:
    """Return True for a file that runs, which configuration files and interpreters are not."""
    if INTERPRETER.fullmatch(file.name):
        return False
    return has_program_suffix(file.name) or os.access(file, os.X_OK)


def may_be_code(file: Path) -> bool:
    """Return True for a program, settings, or a file that starts with the name of its interpreter. Other files that a
    command names, such as data and logs, may change while it runs."""
    if is_program(file) or file.name.lower().endswith(SETTINGS_SUFFIXES):
        return True
    with file.open("rb") as opened:
        return opened.read(2) == b"#!"


def is_shell(name: str, content: bytes) -> bool:
    """Return True for a script that a shell runs, by its suffix or its first line."""
    return name.endswith(SHELL_SUFFIXES) or SHELL.match(content) is not None


def is_launcher(file: Path) -> bool:
    """Return True for a shell script, which usually starts another program."""
    try:
        with file.open("rb") as opened:
            return is_shell(file.name, opened.read(MOST_SHEBANG_BYTES))
    except OSError:
        return False


def command_words(command: Iterable[str]) -> Iterator[str]:
    """Yield the words of a command, the words in its words, as a shell would split them, and their parts after ``=``.

    Omit placeholders.
    """
    for word in command:
        parts = shell_words(word)
        for part in dict.fromkeys((word, *parts)):
            if part and not _has_placeholder(part):
                yield part


def shell_words(text: str) -> list[str]:
    """Return the words of a shell's text, as the shell would split it, and their parts after ``=``. Omit names of files
    that it writes."""
    words: list[str] = []
    for before, part in pairwise(["", *_parts(text)]):
        option, _, value = part.partition("=")
        is_written = WRITES.fullmatch(before) and not has_program_suffix(part)
        if not REDIRECTS.fullmatch(before) and not is_written:
            words += [part] if WRITES.fullmatch(option) else filter(None, (part, value))
            # A command in quotation marks, for `eval` or another shell. Or what is between two apostrophes in comments.
            if any(map(str.isspace, part)) and len(inner := value or part) < len(text):
                words += shell_words(inner)
    return words


def written_names(text: str) -> Iterator[str]:
    """Yield the names, without folders, of files that a shell's text writes."""
    for before, part in pairwise(["", *_parts(text)]):
        option, _, value = part.partition("=")
        if REDIRECTS.fullmatch(before) or WRITES.fullmatch(before):
            yield os.path.basename(part)
        elif WRITES.fullmatch(option):
            yield os.path.basename(value)
        elif any(map(str.isspace, part)) and len(part) < len(text):
            yield from written_names(part)


def _parts(text: str) -> list[str]:
    """Return the words of a shell's text, as the shell would split it. Omit its comments."""
    lines = [line for line in text.replace("`", " ").replace("\\\n", " ").splitlines() if not COMMENT.match(line)]
    try:
        return _split("\n".join(lines))
    except ValueError:  # A quotation mark is not closed, such as an apostrophe in a comment or in a text for a program.
        return [part for line in lines for part in _split_line(line)]


def _split(text: str) -> list[str]:
    """Return the words of a text as a shell would split it. Raises ``ValueError`` if a quotation mark is not closed."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = ""  # A comment begins only where a word begins, so not in `$#`.
    return list(lexer)


def _split_line(line: str) -> list[str]:
    """Return the words of a line, of which any part may be a comment or a text with open quotation marks."""
    for part in (line, TRAILING_COMMENT.sub("", line)):
        with suppress(ValueError):
            return _split(part)
    return [word.strip(MARKS) for word in line.split()]


def _has_placeholder(word: str) -> bool:
    try:
        return bool(placeholders.fields_in(word, "script.command"))
    except SettingsError:  # A brace in a shell script.
        return True


def words_of_variables(variables: Mapping[str, str]) -> list[str]:
    """Return the words in the values of environment variables, without those with files that a program writes."""
    return list(command_words(value for name, value in variables.items() if not WRITTEN.search(name)))


def paths_in(word: str) -> list[str]:
    """Return the paths that a word of a shell may stand for. A variable or a command before them counts as a folder."""
    known = EXPANDED.sub("", word)
    return list(dict.fromkeys(filter(None, (os.path.expanduser(known), known.lstrip("/")))))


def search_path_in(words: Iterable[str]) -> Iterator[str]:
    """Yield the folders that words put into ``PYTHONPATH``."""
    for word in words:
        name, _, folders = word.partition("=")
        if name == PYTHON_PATH:
            yield from filter(None, folders.split(os.pathsep))


def names_in(name: str, content: bytes) -> list[str]:
    """Return the words in a program's texts that may name other programs: in strings of Python, or in quoted texts of
    another language. There, a name may lack the suffix of the program itself."""
    text = content.decode(errors="replace")
    suffix = Path(name).suffix
    if suffix.lower() not in (*PYTHON_SUFFIXES, ""):
        quoted = [match[2] for match in islice(QUOTED.finditer(text), MOST_NAMES)]
        return list(filter(has_program_suffix, (word for one in quoted for word in (*one.split(), f"{one}{suffix}"))))
    if (tree := tree_of(content)) is None:
        return []
    strings = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    words = (word for one in strings if isinstance(one, str) and "\n" not in one for word in one.split())
    return list(islice(filter(has_program_suffix, words), MOST_NAMES))

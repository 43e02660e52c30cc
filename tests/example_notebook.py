"""Runs the example notebook's cells as they stand, and writes what they show into it: no Jupyter is needed.

python -m tests.example_notebook
"""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import json
import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOK = ROOT / "deploy" / "examples" / "transitions.ipynb"


def run_cells(sources: Iterable[str], names: dict[str, Any]) -> Iterator[list[dict[str, Any]]]:
    """The outputs of each cell, run one after the other with these ``names``: what is printed, then the last value."""
    for count, source in enumerate(sources, start=1):
        tree = ast.parse(source)
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(tree, NOTEBOOK.name, "exec"), names)
            shown = None
            if isinstance(last, ast.Expr):
                shown = eval(compile(ast.Expression(last.value), NOTEBOOK.name, "eval"), names)
        outputs: list[dict[str, Any]] = []
        if said := printed.getvalue().replace(f"{Path.cwd()}/", ""):  # No place of this machine.
            outputs.append({"name": "stdout", "output_type": "stream", "text": said.splitlines(keepends=True)})
        if shown is not None:
            data = _shown(shown)
            outputs.append({"data": data, "execution_count": count, "metadata": {}, "output_type": "execute_result"})
        yield outputs


def _shown(value: Any) -> dict[str, Any]:
    """A value in the forms that Jupyter asks it for."""
    data: dict[str, Any] = {}
    if callable(html := getattr(value, "_repr_html_", None)) and (said := html()) is not None:
        data["text/html"] = said.splitlines(keepends=True)
    if callable(png := getattr(value, "_repr_png_", None)) and (drawn := png()) is not None:
        data["image/png"] = base64.b64encode(drawn).decode()
    return data | {"text/plain": repr(value).splitlines(keepends=True)}


def main() -> None:
    notebook = json.loads(NOTEBOOK.read_text())
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    with tempfile.TemporaryDirectory() as scratch:
        os.chdir(scratch)
        outputs = list(run_cells(["".join(cell["source"]) for cell in cells], {}))
        os.chdir(ROOT)
    for count, (cell, shown) in enumerate(zip(cells, outputs, strict=True), start=1):
        cell |= {"outputs": shown, "execution_count": count}
    NOTEBOOK.write_text(json.dumps(notebook, indent=1, ensure_ascii=False, sort_keys=True) + "\n")
    print(NOTEBOOK)


if __name__ == "__main__":
    main()

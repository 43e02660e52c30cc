"""Arguments of ``self.save`` and ``self.keep`` of a simple family, as data: tensors, arrays and plain values.

A state is written without pickle: its tensors and arrays as safetensors, the rest as JSON. Reading a state never runs
code. Values are copied at once, because training changes tensors in place.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trainables.contract.runs import Evaluation

MOST_STATE_BYTES = 4 << 30
"""Maximum number of bytes of all tensors and arrays of a state."""
MOST_KEPT_BYTES = {"weights": 1 << 30, "arrays": 256 << 20}
"""Maximum number of bytes that a run keeps, by kind. A worker sends them to the driver in one message, and a home
refuses to read larger files of arrays."""
MOST_VALUES = 100_000
"""Maximum number of values in a state."""
MOST_CHARACTERS = 1_000_000
"""Maximum number of characters of a text in a state."""
MOST_BITS = 4096
"""Maximum number of bits of a whole number in a state."""
DEEPEST_STATE = 32
"""Maximum nesting of a state."""
ALLOWED = "a state may have tensors, arrays, numbers, text, None, and dicts, lists and tuples of these"
ARRAY_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]{0,199}")
"""Pattern of the names of kept weights and arrays, which become names in files."""
DTYPES = frozenset(
    getattr(torch, name)
    for name in (
        *("float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "complex64", "bool"),
        *("int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8"),
    )
)
"""Types of tensors that a file can have."""


class StateError(Exception):
    """Raised for a value that cannot be saved or kept. The message contains its place and its type."""


@dataclass(frozen=True)
class StateCopy:
    """A copy of a state.

    Attributes:
        tree: The state as JSON values. Instead of a tensor or array, it contains an index into ``tensors``.
        tensors: The tensors and arrays, on the CPU.
    """

    tree: Any
    tensors: tuple[Tensor, ...]


def snapshot(state: Any, place: str = "state") -> StateCopy:
    """Return a copy of a state. Raises :class:`StateError` for a value that a file cannot have.

    ``place`` is the state's name in messages.
    """
    copier = _Copier()
    tree = copier.copied(state, place, 0)
    return StateCopy(tree, tuple(copier.tensors))


class _Copier:
    """Copies the values of one state, and counts them."""

    def __init__(self) -> None:
        self.tensors: list[Tensor] = []
        self._values = 0
        self._bytes = 0

    def copied(self, value: Any, place: str, depth: int) -> Any:
        """Return a value as JSON values."""
        self._values += 1
        if self._values > MOST_VALUES:
            raise StateError(f"{place} is one of more than {MOST_VALUES:,} values; put many numbers into one array")
        if depth > DEEPEST_STATE:
            raise StateError(f"{place} is nested more than {DEEPEST_STATE} deep (does a list or dict contain itself?)")
        match value:
            case None | bool():
                return value
            case Tensor():
                return {"tensor": self._stored(value, place)}
            case np.ndarray() | np.generic():  # Before numbers, because np.float64 is also a float.
                kind = "array" if isinstance(value, np.ndarray) else "scalar"
                return {kind: self._stored(_as_tensor(value, place), place)}
            case int():
                if value.bit_length() > MOST_BITS:
                    raise StateError(f"{place} is a whole number of more than {MOST_BITS} bits")
                return int(value)
            case float():
                return float(value)
            case str():
                if len(value) > MOST_CHARACTERS:
                    raise StateError(f"{place} is text of {len(value):,} characters; at most {MOST_CHARACTERS:,} fit")
                return str(value)
            case Mapping():
                return {"dict": [self._entry(key, entry, place, depth) for key, entry in value.items()]}
            case list() | tuple():
                kind = "list" if isinstance(value, list) else "tuple"
                return {kind: [self.copied(item, f"{place}[{n}]", depth + 1) for n, item in enumerate(value)]}
        raise StateError(f"{place} is {_kind(value)}; {ALLOWED}")

    def _entry(self, key: Any, value: Any, place: str, depth: int) -> list[Any]:
        if isinstance(key, bool) or not isinstance(key, str | int) or (isinstance(key, str) and len(key) > 1000):
            raise StateError(f"{place} has the key {key!r:.60}, {_kind(key)}; keys are text or whole numbers")
        plain = str(key) if isinstance(key, str) else int(key)
        return [plain, self.copied(value, f"{place}[{plain!r}]", depth + 1)]

    def _stored(self, tensor: Tensor, place: str) -> int:
        """Copy a tensor and return its index."""
        if tensor.layout != torch.strided or tensor.dtype not in DTYPES or tensor.device.type == "meta":
            what = f"{tensor.layout}, {tensor.dtype} on {tensor.device}".replace("torch.", "")
            raise StateError(f"{place} is a tensor ({what}) that a file cannot have; convert it")
        self._bytes += tensor.numel() * tensor.element_size()
        if self._bytes > MOST_STATE_BYTES:
            raise StateError(f"{place} makes the state larger than {MOST_STATE_BYTES >> 30} GiB")
        self.tensors.append(tensor.detach().to("cpu", copy=True).contiguous())
        return len(self.tensors) - 1


def _as_tensor(value: Any, place: str) -> Tensor:
    """Return a numpy array or number as a tensor, which may share its memory."""
    array = np.asarray(value)
    try:
        # Torch takes neither the bytes of other machines nor negative strides.
        native = array.astype(array.dtype.newbyteorder("="), order="C")
        return torch.from_numpy(native)
    except (TypeError, ValueError):
        raise StateError(
            f"{place} is {_kind(value)} of the type {array.dtype}; a state has arrays of numbers"
        ) from None


def _kind(value: Any) -> str:
    """Return the type of a value with its article: ``a function``."""
    kind = type(value)
    name = kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def restored(tree: Any, tensors: Sequence[Tensor]) -> Any:
    """Rebuild a state from a snapshot. Its tensors are on the CPU.

    The snapshot may come from another user's file, so check it. Raises ``ValueError`` if :func:`snapshot` cannot have
    made it.
    """
    return _Restorer(tensors).value(tree, 0)


class _Restorer:
    """Makes the values of one state from JSON values and tensors."""

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        self._tensors = tensors
        self._values = 0

    def value(self, tree: Any, depth: int) -> Any:
        self._values += 1
        if self._values > MOST_VALUES or depth > DEEPEST_STATE:
            raise ValueError("a saved state has too many values or is nested too deep")
        if tree is None or isinstance(tree, bool | int | float | str):
            return tree
        if not isinstance(tree, dict) or len(tree) != 1:
            raise ValueError(f"a saved state has {tree!r:.60}, which is not a value")
        [(kind, content)] = tree.items()
        if kind in ("tensor", "array", "scalar"):
            tensor = self._tensor(content)
            array = None if kind == "tensor" else tensor.numpy()
            return tensor if array is None else array if kind == "array" else array[()]
        if not isinstance(content, list):
            raise ValueError(f"a saved state has the {kind} {content!r:.60}")
        if kind == "dict":
            return {self._key(entry): self.value(entry[1], depth + 1) for entry in content}
        if kind in ("list", "tuple"):
            values = [self.value(item, depth + 1) for item in content]
            return values if kind == "list" else tuple(values)
        raise ValueError(f"a saved state has a value of the unknown kind {kind!r:.60}")

    def _tensor(self, index: Any) -> Tensor:
        if type(index) is not int or not 0 <= index < len(self._tensors):
            raise ValueError(f"a saved state has no tensor {index!r:.60}")
        return self._tensors[index]

    def _key(self, entry: Any) -> str | int:
        if not isinstance(entry, list) or len(entry) != 2 or type(entry[0]) not in (str, int):
            raise ValueError(f"a saved state has the entry {entry!r:.60}")
        key: str | int = entry[0]
        return key


def kept_arrays(given: Any, what: str) -> dict[str, NDArray[Any]]:
    """Return copies of named tensors and arrays as numpy arrays. Types that numpy lacks, such as bfloat16, become
    float32.

    ``what`` is ``weights`` or ``arrays``. Raises :class:`StateError` for other values.
    """
    if not isinstance(given, Mapping):
        raise StateError(f"{what} is {_kind(given)}; it must map names to tensors or arrays")
    arrays = {}
    for name, value in given.items():
        place = f"{what}[{name!r:.60}]"
        if not isinstance(name, str) or not ARRAY_NAME.fullmatch(name):
            raise StateError(f"{place} has a name that files cannot have; use up to 200 letters, digits, _, - and .")
        if not isinstance(value, Tensor | np.ndarray):
            raise StateError(f"{place} is {_kind(value)}; it must be a tensor or an array")
        [tensor] = snapshot(value, place).tensors
        is_known = tensor.dtype not in (torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2)
        arrays[name] = (tensor if is_known else tensor.float()).numpy()
    size = sum(array.nbytes for array in arrays.values())
    if size > MOST_KEPT_BYTES[what]:
        largest = max(arrays, key=lambda name: arrays[name].nbytes)
        limit = f"a run keeps at most {MOST_KEPT_BYTES[what] >> 20:,}"
        raise StateError(f"{what} has {size / (1 << 20):,.0f} MB, of which {largest!r} is the largest part; {limit}")
    return arrays


@dataclass(frozen=True)
class SimpleCheckpoint:
    """A checkpoint of a run.

    Attributes:
        step: Last reported step.
        seconds: Seconds of training so far.
        curve: Learning curve so far.
        state: Last state that ``train`` saved.
        weights: Weights that ``train`` kept.
        arrays: Arrays that ``train`` kept.
    """

    step: int
    seconds: float
    curve: tuple[Evaluation, ...]
    state: StateCopy
    weights: Mapping[str, NDArray[Any]]
    arrays: Mapping[str, NDArray[Any]]


def checkpoint_content(saved: SimpleCheckpoint) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the tensors and the JSON values of a checkpoint's file."""
    kept = snapshot({"weights": dict(saved.weights), "arrays": dict(saved.arrays)}, "what is kept")
    tensors = {f"state.{index}": tensor for index, tensor in enumerate(saved.state.tensors)}
    tensors |= {f"kept.{index}": tensor for index, tensor in enumerate(kept.tensors)}
    curve = [[point.step, float(point.loss), _floats(point.accuracy), _floats(point.measures)] for point in saved.curve]
    notes = {"step": saved.step, "seconds": saved.seconds, "curve": curve}
    return tensors, notes | {"state": saved.state.tree, "kept": kept.tree}


def checked_checkpoint(tensors: Mapping[str, Tensor], notes: Mapping[str, Any]) -> SimpleCheckpoint:
    """Return a checkpoint from the content of its file.

    The file may be from another user, so check it. Raises ``ValueError`` if :func:`checkpoint_content` cannot have made
    it.
    """
    parts: dict[str, list[Tensor]] = {}
    for part in ("state", "kept"):
        names = [f"{part}.{index}" for index in range(len(tensors))]
        parts[part] = [tensors[name] for name in names if name in tensors]
    try:
        state = StateCopy(notes["state"], tuple(parts["state"]))
        kept = restored(notes["kept"], parts["kept"])
        restored(state.tree, state.tensors)  # Only checks the state. It is rebuilt when training continues.
        curve = tuple(_checked_point(point) for point in notes["curve"])
        weights, arrays = (_checked_arrays(kept[what]) for what in ("weights", "arrays"))
        step = notes["step"]
        seconds = float(notes["seconds"])
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"it is not a checkpoint of a simple family ({type(error).__name__}: {error})") from error
    steps = [0, *(point.step for point in curve)]
    if steps != sorted(set(steps)) or type(step) is not int or step < 0 or not 0 <= seconds < math.inf:
        raise ValueError("its steps or seconds are impossible")
    return SimpleCheckpoint(step, seconds, curve, state, weights, arrays)


def _floats(shares: Mapping[str, Any]) -> dict[str, float]:
    return {task: float(share) for task, share in shares.items()}


def _checked_point(values: Any) -> Evaluation:
    step, loss, accuracy, measures = values
    point = Evaluation(step, loss, dict(accuracy), dict(measures))
    numbers = [point.loss, *point.accuracy.values(), *point.measures.values()]
    if type(step) is not int or not all(type(number) is float and math.isfinite(number) for number in numbers):
        raise ValueError(f"its learning curve has the point {point!r:.100}")
    return point


def _checked_arrays(named: Any) -> dict[str, NDArray[Any]]:
    if not all(ARRAY_NAME.fullmatch(name) and isinstance(array, np.ndarray) for name, array in named.items()):
        raise ValueError("it keeps something that is not an array")
    return dict(named)

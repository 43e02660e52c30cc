"""Reads npz files, which another user may have made: only what :func:`packed_arrays` and ``np.savez`` write.

The list of members and the headers of arrays are checked before anything is unpacked or allocated. NumPy's own reader
would evaluate a header as Python, and raise a dozen kinds of errors.
"""

from __future__ import annotations

import io
import math
import os
import re
import struct
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orchestrator.home.foreign_files import open_file

DAMAGED_ARRAYS = (ValueError, OSError)
"""Errors that :func:`read_npz` raises for a damaged file of arrays."""
MOST_ARRAY_BYTES = 256 << 20
"""Bytes of content that any file of arrays may have, even a small one."""
MOST_ARRAY_RATIO = 100
"""Bytes of content that a file of arrays may have per byte of its own size."""
MOST_HEADER_BYTES = 10_000
"""Maximum number of bytes of an array's header. NumPy's reader has the same limit."""
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""Compression methods of the files that NumPy writes."""
PLAIN_FLAGS = 0x2 | 0x4 | 0x8 | 0x800
"""Flags that a member may have: two levels of compression, sizes after the content, and a name in UTF-8. Others mark
encryption, for example."""
LENGTHS = {b"\x01\x00": ("<H", "latin1"), b"\x02\x00": ("<I", "latin1"), b"\x03\x00": ("<I", "utf-8")}
"""Format of the header's length, and encoding of the header, by version of the layout."""
TYPE = r"[<>|=][biufcSUVmM]\d{1,7}(?:\[\d{0,5}[a-zA-Zμ]{1,2}\])?"
"""Pattern of the type of a number, a text or a time."""
SHAPE = r"(?:\d{1,18},|\d{1,18}(?:, \d{1,18})+)?"
"""Pattern of a shape without its parentheses."""
FIELD = rf"\('([^'\\]{{0,200}})', '({TYPE})'(?:, \(({SHAPE})\))?\)"
"""Pattern of a field of a structured array: its name, its type, and the shape of its values."""
HEADER = re.compile(
    rf"{{'descr': (?:'(?P<type>{TYPE})'|\[(?P<fields>{FIELD}(?:, {FIELD})*)\]), "
    rf"'fortran_order': (?P<columns_first>False|True), 'shape': \((?P<shape>{SHAPE})\), }} *\n"
)
"""Pattern of a header as NumPy writes it."""


def packed_arrays(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Return arrays as an npz file."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:  # np.savez takes no array with the name of one of its parameters.
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, np.asanyarray(array), allow_pickle=False)
    return buffer.getvalue()


def read_npz(path: Path) -> dict[str, NDArray[Any]]:
    """Return the arrays of a file by name.

    Raises one of :data:`DAMAGED_ARRAYS` if the file is damaged, if its content is implausibly large for a file of this
    size, or if it has a member that is not an array of numbers, texts, times or fields of these.
    """
    with open_file(path) as file:
        size = os.fstat(file.fileno()).st_size
        try:
            with zipfile.ZipFile(file) as archive:
                members = archive.infolist()
                _check_members(members, size)
                return {member.filename.removesuffix(".npy"): _array(archive, member) for member in members}
        # For a file that was cut off or overwritten, and for a zip file of a later version.
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
            raise ValueError(f"{path.name}: {error!s:.200}") from error
        except ValueError as error:
            raise ValueError(f"{path.name} {error}") from error


def _check_members(members: list[zipfile.ZipInfo], size: int) -> None:
    """Raise ``ValueError`` for a member that NumPy would not write, in a zip file of ``size`` bytes."""
    if sum(member.file_size for member in members) > max(MOST_ARRAY_BYTES, MOST_ARRAY_RATIO * size):
        raise ValueError("has more content than can be read")
    names = [member.filename for member in members]
    if len(set(names)) < len(names):
        raise ValueError("has two arrays of one name")
    for member in members:
        name = member.filename
        if not name.endswith(".npy") or not name.isprintable():
            raise ValueError(f"has a file that is not an array: {name!a:.80}")
        if member.compress_type not in METHODS or member.flag_bits & ~PLAIN_FLAGS:
            raise ValueError(f"has an array that is encrypted, or compressed by another method: {name!a:.80}")
        if not (0 <= member.header_offset < size and 0 <= member.compress_size <= size):
            raise ValueError(f"ends before the array {name!a:.80}")


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> NDArray[Any]:
    """Return the array of a member. Raises ``ValueError`` if it is damaged."""
    with archive.open(member) as file:
        content = file.read(member.file_size)  # With a number of bytes, at most those are unpacked.
    start, header = _header(content)
    if (found := HEADER.fullmatch(header)) is None:
        raise ValueError(f"has an array with a header that NumPy does not write: {header!a:.80}")
    dtype = _dtype(found)
    shape = _numbers(found["shape"])
    if not dtype.itemsize or math.prod(shape) * dtype.itemsize != len(content) - start:
        raise ValueError(f"has an array whose content does not fit its header: {header!a:.80}")
    # A copy in a bytearray, because arrays over bytes cannot be changed.
    return np.ndarray(shape, dtype, bytearray(content[start:]), order="F" if found["columns_first"] == "True" else "C")


def _header(content: bytes) -> tuple[int, str]:
    """Return where an array's values begin, in bytes, and its header. Raise ``ValueError`` if it has no header."""
    magic = len(np.lib.format.MAGIC_PREFIX)
    layout = LENGTHS.get(content[magic : magic + 2])
    if not content.startswith(np.lib.format.MAGIC_PREFIX) or layout is None:
        raise ValueError("has a member that is not an array")
    form, encoding = layout
    begin = magic + 2 + struct.calcsize(form)
    if len(content) < begin:
        raise ValueError("has an array without a header")
    [length] = struct.unpack(form, content[magic + 2 : begin])
    if length > min(MOST_HEADER_BYTES, len(content) - begin):
        raise ValueError("has an array with a header that is too long")
    return begin + length, content[begin : begin + length].decode(encoding)


def _dtype(found: re.Match[str]) -> np.dtype[Any]:
    """Return the type of the array that a header describes. Raise ``ValueError`` if NumPy does not know the type."""
    try:
        if found["type"] is not None:
            return np.dtype(found["type"])
        fields = re.findall(FIELD, found["fields"])
        # NumPy's function also leaves out fields without a name, which are the space between two others.
        return np.lib.format.descr_to_dtype([(name, kind, *_inner(shape)) for name, kind, shape in fields])
    except TypeError as error:
        raise ValueError(f"has an array of an unknown type: {error}") from error


def _inner(shape: str) -> tuple[tuple[int, ...], ...]:
    """Return the shape of a field's values as the last part of the field's description, or nothing for single
    values."""
    return (_numbers(shape),) if shape else ()


def _numbers(shape: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", shape)))

"""Files of arrays are read back unchanged. Files that NumPy would not write count as damaged."""

from __future__ import annotations

import io
import struct
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from orchestrator.home.array_files import packed_arrays, read_npz
from orchestrator.home.run_files import ARRAYS
from orchestrator.report.figures.probes import similarity_of

EYE = np.eye(4)
HEADER = b"{'descr': '<f8', 'fortran_order': False, 'shape': %s, }"


def array_file(header: bytes, values: bytes = b"") -> bytes:
    """Return an array file with this header."""
    padded = header + b" " * (-(len(header) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(padded)) + padded + values


def zip_file(members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def saved(array: np.ndarray[Any, np.dtype[Any]]) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def encrypted() -> bytes:
    """Return a file whose only member is marked as encrypted, in its own header and in the list of members."""
    content = bytearray(zip_file({"similarity.npy": saved(EYE)}))
    content[content.find(b"PK\x03\x04") + 6] |= 1
    content[content.find(b"PK\x01\x02") + 8] |= 1
    return bytes(content)


def overwritten(method: int) -> bytes:
    """Return a file with damage in its compressed values."""
    content = bytearray(zip_file({"similarity.npy": saved(EYE)}, method))
    start = content.find(b"similarity.npy") + 14
    content[start + 12 : start + 40] = b"\xff" * 28
    return bytes(content)


def far() -> bytes:
    """Return a file whose list of members places the array at an offset that no file has."""
    content = bytearray(zip_file({"similarity.npy": saved(EYE)}))
    entry = content.find(b"PK\x01\x02")
    extra = struct.pack("<HHQ", 1, 8, 2**64 - 1)
    content[entry + 30 : entry + 32] = struct.pack("<H", len(extra))
    content[entry + 42 : entry + 46] = b"\xff" * 4
    content[entry + 46 + 14 : entry + 46 + 14] = extra
    end = content.find(b"PK\x05\x06")
    content[end + 12 : end + 16] = struct.pack("<I", end - entry)
    return bytes(content)


def of_header(header: bytes, values: bytes = b"") -> bytes:
    return zip_file({"similarity.npy": array_file(header, values)})


DAMAGED: dict[str, tuple[Callable[[], bytes], str]] = {
    "encrypted": (encrypted, "is encrypted, or compressed by another method: 'similarity.npy'"),
    "lzma": (lambda: overwritten(zipfile.ZIP_LZMA), "compressed by another method"),
    "bzip2": (lambda: overwritten(zipfile.ZIP_BZIP2), "compressed by another method"),
    "deflated": (lambda: overwritten(zipfile.ZIP_DEFLATED), "arrays.npz: "),
    "far": (far, "ends before the array 'similarity.npy'"),
    "open brackets": (lambda: of_header(b"{'descr': '<f8', (((("), "a header that NumPy does not write"),
    "open text": (lambda: of_header(b"'''abc"), "a header that NumPy does not write"),
    "type of no parts": (lambda: of_header(HEADER.replace(b"'<f8'", b"()") % b"(2, 2)"), "a header that NumPy"),
    "type of one part": (lambda: of_header(HEADER.replace(b"'<f8'", b"('<f8',)") % b"(2, 2)"), "a header that NumPy"),
    "type as text": (lambda: of_header(HEADER.replace(b"<f8", b"<f8,(") % b"(2, 2)"), "a header that NumPy"),
    "unknown type": (lambda: of_header(HEADER.replace(b"<f8", b"<f3") % b"(2, 2)"), "an array of an unknown type"),
    "objects": (lambda: of_header(HEADER.replace(b"<f8", b"|O") % b"(2, 2)"), "a header that NumPy does not write"),
    "minus signs": (lambda: of_header(b"-" * 5000 + b"1"), "a header that NumPy does not write"),
    "sums": (lambda: of_header(b"1" + b"+1j" * 3000), "a header that NumPy does not write"),
    "brackets": (lambda: of_header(HEADER % (b"[" * 90 + b"]" * 90)), "a header that NumPy does not write"),
    "negative": (lambda: of_header(HEADER % b"(-2, -2)", bytes(32)), "a header that NumPy does not write"),
    "digits": (lambda: of_header(HEADER % (b"(" + b"9" * 4000 + b", 2)"), bytes(32)), "a header that NumPy"),
    "large": (lambda: of_header(HEADER % b"(100000, 100000)", bytes(32)), "content does not fit its header"),
    "empty texts": (lambda: of_header(HEADER.replace(b"<f8", b"|S0") % b"(1000000000000,)"), "does not fit its header"),
    "true": (lambda: of_header(HEADER % b"(True, True)", bytes(8)), "a header that NumPy does not write"),
    "long": (lambda: of_header(HEADER % b"(2, 2)" + b" " * 20_000, bytes(32)), "a header that is too long"),
    "no array": (lambda: zip_file({"similarity.npy": b"no array at all"}), "a member that is not an array"),
    "short": (lambda: zip_file({"similarity.npy": b"\x93NUMPY\x01\x00v"}), "an array without a header"),
    "control": (lambda: zip_file({"\x1b[31m.npy": saved(EYE)}), r"a file that is not an array: '\x1b[31m.npy'"),
    "other": (lambda: zip_file({"similarity.npz": saved(EYE)}), "a file that is not an array: 'similarity.npz'"),
    "cut off": (lambda: packed_arrays({"similarity": EYE})[:100], "arrays.npz: File is not a zip file"),
    "bomb": (lambda: zip_file({"similarity.npy": bytes((256 << 20) + 1)}), "has more content than can be read"),
}


@pytest.mark.parametrize("kind", DAMAGED)
def test_a_file_that_numpy_would_not_write_is_damaged(
    kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made, reason = DAMAGED[kind]
    (tmp_path / ARRAYS).write_bytes(made())
    begun = time.process_time()
    with pytest.raises(ValueError, match=r"^arrays\.npz") as refused:
        read_npz(tmp_path / ARRAYS)
    assert reason in str(refused.value)
    assert similarity_of(tmp_path) == f"are damaged ({refused.value})"
    assert f"The arrays in {tmp_path} are damaged" in caplog.text
    assert time.process_time() - begun < 2


def test_two_arrays_of_one_name_are_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / ARRAYS, "w") as archive:
        archive.writestr("a.npy", saved(EYE))
        with pytest.warns(UserWarning, match="Duplicate name"):
            archive.writestr("a.npy", saved(2 * EYE))
    with pytest.raises(ValueError, match="has two arrays of one name"):
        read_npz(tmp_path / ARRAYS)


@pytest.mark.parametrize("compressed", [False, True])
def test_arrays_are_read_back_unchanged(compressed: bool, tmp_path: Path) -> None:
    arrays: dict[str, np.ndarray[Any, np.dtype[Any]]] = {
        "matrix": np.arange(6.0).reshape(2, 3),
        "columns first": np.asfortranarray(np.arange(6, dtype=np.int16).reshape(2, 3)),
        "big_endian": np.arange(3, dtype=">u4"),
        "scalar": np.array(2.5 + 1j),
        "empty": np.zeros((0, 3), np.float16),
        "flags/é": np.array([True, False]),
        "texts": np.array(["add", "prod"]),
        "bytes": np.array([b"a", b"bc"]),
        "times": np.array(["2026-01-01", "2026-01-02"], "M8[D]"),
        "fields": np.array([(1, (2.0, 3.0)), (4, (5.0, 6.0))], [("size", "<i4"), ("ends", "<f8", (2,))]),
        "aligned": np.array([(1, 2.0)], np.dtype([("a", "i1"), ("b", "f8")], align=True)),
    }
    if compressed:
        np.savez_compressed(tmp_path / ARRAYS, allow_pickle=False, **arrays)
    else:
        (tmp_path / ARRAYS).write_bytes(packed_arrays(arrays))
    read = read_npz(tmp_path / ARRAYS)
    assert list(read) == list(arrays)
    for name, array in arrays.items():
        assert read[name].shape == array.shape, name
        assert read[name].dtype.names == array.dtype.names, name
        np.testing.assert_array_equal(read[name], array, err_msg=name)
        assert read[name].flags.f_contiguous == array.flags.f_contiguous, name
        assert read[name].flags.writeable, name
    assert {name: read[name].dtype for name in ("matrix", "big_endian", "texts", "times")} == {
        "matrix": np.dtype("<f8"),
        "big_endian": np.dtype(">u4"),
        "texts": np.dtype("<U4"),
        "times": np.dtype("<M8[D]"),
    }

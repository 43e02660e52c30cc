"""What every storage must do, wherever it keeps things. Subclass :class:`StorageConformance`; give it ``storage``."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from orchestrator.store.storage import Storage


def content(storage: Storage, name: str) -> dict[str, bytes]:
    """The files that are kept under a name, by their paths there."""
    directory = storage.get(name)
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def put(storage: Storage, name: str, **files: bytes) -> None:
    with storage.put(name) as directory:
        (directory / "inner").mkdir()
        for file, said in files.items():
            (directory / file.replace("__", "/")).write_bytes(said)


class StorageConformance:
    """The suite. A subclass overrides the fixture ``storage``: a new one, in which nothing is kept."""

    @pytest.fixture
    def storage(self) -> Storage:
        """The storage under test."""
        raise NotImplementedError

    def test_a_new_one_keeps_nothing(self, storage: Storage) -> None:
        assert storage.list() == []
        assert not storage.has("key")
        assert not storage.get("key").exists()
        storage.delete("key")

    def test_what_was_put_is_got_whole(self, storage: Storage) -> None:
        put(storage, "key", outcome=b"good", inner__weights=b"\x00\x01")
        assert storage.has("key")
        assert content(storage, "key") == {"outcome": b"good", "inner/weights": b"\x00\x01"}

    def test_nothing_is_seen_before_the_end(self, storage: Storage) -> None:
        with storage.put("key") as directory:
            (directory / "outcome").write_bytes(b"half")
            assert not storage.has("key")
            assert storage.list() == []
            assert not storage.get("key").exists()
        assert storage.list() == ["key"]

    def test_what_fails_half_way_leaves_nothing(self, storage: Storage) -> None:
        with pytest.raises(NotADirectoryError):
            put(storage, "key", outcome=b"half", outcome__weights=b"beneath a file")
        assert storage.list() == []
        put(storage, "key", outcome=b"good")
        assert content(storage, "key") == {"outcome": b"good"}

    def test_the_first_to_finish_is_right(self, storage: Storage) -> None:
        with storage.put("key") as slower:
            (slower / "outcome").write_bytes(b"second")
            put(storage, "key", outcome=b"first")
        assert content(storage, "key") == {"outcome": b"first"}

    def test_of_many_at_once_one_is_right_and_whole(self, storage: Storage) -> None:
        there = threading.Barrier(8)

        def race(place: int) -> None:
            with storage.put("key") as directory:
                for name in "ab":
                    (directory / name).write_bytes(b"%d" % place * 10_000)
                there.wait(timeout=60)

        threads = [threading.Thread(target=race, args=(place,)) for place in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        found = content(storage, "key")
        assert set(found) == {"a", "b"}
        assert found["a"] == found["b"]
        assert storage.list() == ["key"]

    def test_names_are_listed_by_prefix(self, storage: Storage) -> None:
        for name in ("b.2", "a.10", "a.9", "ab.1"):
            put(storage, name, outcome=b"")
        assert storage.list() == ["a.10", "a.9", "ab.1", "b.2"]
        assert storage.list("a.") == ["a.10", "a.9"]
        assert storage.list("c") == []

    def test_what_is_deleted_is_gone_and_the_name_is_free(self, storage: Storage) -> None:
        put(storage, "key", outcome=b"old")
        put(storage, "other", outcome=b"other")
        storage.delete("key")
        assert storage.list() == ["other"]
        assert not storage.get("key").exists()
        put(storage, "key", outcome=b"new")
        assert content(storage, "key") == {"outcome": b"new"}

    def test_files_are_added_and_replaced_whole(self, storage: Storage) -> None:
        put(storage, "key", outcome=b"good")
        storage.add("key", "probes/ring.json", b"old")
        storage.add("key", "probes/ring.json", b"new")
        assert content(storage, "key") == {"outcome": b"good", "probes/ring.json": b"new"}

    def test_what_is_moved_has_the_other_name_alone(self, storage: Storage) -> None:
        put(storage, "key", outcome=b"good", inner__weights=b"1")
        storage.move("key", "key.damaged-1")
        assert storage.list() == ["key.damaged-1"]
        assert content(storage, "key.damaged-1") == {"outcome": b"good", "inner/weights": b"1"}

    def test_what_was_got_is_a_place_to_read_on_this_machine(self, storage: Storage, tmp_path: Path) -> None:
        put(storage, "key", outcome=b"good")
        there = storage.get("key")
        assert there.is_absolute()
        assert (there / "outcome").read_bytes() == b"good"
        assert not (there / "nothing").exists()

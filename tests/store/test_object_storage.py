"""What a storage in an object store does beyond the contract of all storages."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.store import bucket
from orchestrator.store.bucket import ABSENT, Bucket, ChangedError
from orchestrator.store.damage import is_whole
from orchestrator.store.object_storage import S3Storage
from orchestrator.store.trouble import REMOTE, trouble_in, trouble_words
from tests.conformance.storages import content, put
from tests.objects import ObjectStore, object_store


@pytest.fixture(name="objects")
def running_object_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with object_store(monkeypatch) as store:
        yield store


def test_a_copy_is_made_once_for_all_processes(objects: ObjectStore) -> None:
    address = objects.bucket()
    one, other = S3Storage(address), S3Storage(address)
    put(one, "key", outcome=b"good")
    there = other.get("key")
    assert one.get("key") == other.get("key") == there
    one.add("key", "probe.json", b"found")
    assert content(other, "key") == {"outcome": b"good", "probe.json": b"found"}
    assert (there / "outcome").is_file()  # Whoever reads the older one goes on.


def test_of_several_that_add_none_is_lost(objects: ObjectStore) -> None:
    storage = S3Storage(objects.bucket())
    put(storage, "key", outcome=b"good")
    threads = [threading.Thread(target=storage.add, args=("key", f"{number}", b"")) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(content(storage, "key")) == {"outcome", "0", "1", "2", "3"}


def test_large_directories_travel_in_parts(objects: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bucket, "PART_BYTES", 5 << 20)
    storage, weights = S3Storage(objects.bucket()), bytes(range(256)) * (11 << 12)
    put(storage, "key", weights=weights)
    assert content(S3Storage(str(storage)), "key") == {"weights": weights}
    with storage.put("twice") as slower:
        (slower / "weights").write_bytes(weights)
        put(storage, "twice", outcome=b"first")
    assert content(storage, "twice") == {"outcome": b"first"}
    assert storage.size("key") >= len(weights)
    assert list(Bucket(str(storage)).uploads()) == []


def test_an_object_is_replaced_only_as_it_was(objects: ObjectStore) -> None:
    place = Bucket(objects.bucket())
    first = place.write("key", b"1", ABSENT)
    with pytest.raises(ChangedError):
        place.write("key", b"2", ABSENT)
    second = place.write("key", b"2", first)
    with pytest.raises(ChangedError):
        place.write("key", b"3", first)
    assert place.read("key") == (b"2", second)
    assert place.read("key", known=second) is None
    place.delete("key")
    with pytest.raises(ChangedError):
        place.write("key", b"3", second)
    assert place.heeds_conditions()
    assert [each.key for each in place.list()] == []


def test_a_store_that_does_not_answer_is_the_machines_trouble(objects: ObjectStore) -> None:
    storage = S3Storage(objects.bucket())
    put(storage, "key", outcome=b"good")
    objects.stop()
    for ask in (storage.list, lambda: storage.has("key"), lambda: storage.get("key"), lambda: storage.delete("key")):
        with pytest.raises(OSError, match="cannot be reached") as caught:
            ask()
        assert trouble_in(caught.value) == REMOTE
        assert trouble_words(caught.value, "elsewhere").startswith(f"{storage} cannot be reached (")
    with pytest.raises(OSError, match="cannot be reached"), storage.put("other") as directory:
        (directory / "outcome").write_bytes(b"good")
    objects.start()
    assert storage.list() == ["key"]


@pytest.mark.parametrize("kept", [b"no archive", b""], ids=["other", "empty"])
def test_what_is_damaged_is_put_aside(kept: bytes, objects: ObjectStore) -> None:
    storage, said = S3Storage(objects.bucket()), list[str]()
    Bucket(str(storage)).write("key.tar", kept, ABSENT)
    assert not is_whole(storage, "key", said.append)
    [aside] = storage.list()
    assert aside.startswith("key.damaged-")
    assert aside in said[0]
    assert content(storage, aside) == {"damaged.tar": kept}

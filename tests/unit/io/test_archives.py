"""Untrusted archives: plain files within limits are unpacked, or nothing is accepted."""

from __future__ import annotations

import gzip
import io
import os
import stat
import struct
import tarfile
import tempfile
import time
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mainstay.io.archives import ArchiveLimits, ArchiveRefused, unpack

EXAMPLES = 1500 if os.environ.get("MAINSTAY_TEST_ALL") else 150
FILES = {"plugin.yaml": b"name: x\n", "lib/a.txt": b"\0\xff" * 5000, "lib/deep/er/b": b"", "Grüße/世界.md": b"hi"}
LONG = "a-long-name-of-a-folder-" * 6 + "/" + "b" * 150 + ".txt"


def tar_of(files: dict[str, bytes], *, format: int = tarfile.GNU_FORMAT, mode: str = "w") -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode=mode, format=format) as archive:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            entry.mode = 0o755 if name.endswith(".sh") else 0o644
            archive.addfile(entry, io.BytesIO(data))
    return made.getvalue()


def zip_of(files: dict[str, bytes], *, how: int = zipfile.ZIP_DEFLATED) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", how) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return made.getvalue()


def one_tar(name: str = "x", **attributes: object) -> bytes:
    """With a single entry that is not what it should be."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.GNU_FORMAT) as archive:
        entry = tarfile.TarInfo(name)
        for key, value in attributes.items():
            setattr(entry, key, value)
        archive.addfile(entry, io.BytesIO(b"\0" * entry.size))
    return made.getvalue()


def one_zip(name: str = "x", mode: int = stat.S_IFREG | 0o644, data: bytes = b"x") -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        entry = zipfile.ZipInfo(name)
        entry.create_system = 3
        entry.external_attr = mode << 16
        archive.writestr(entry, data)
    return made.getvalue()


def unpacked(where: Path, data: bytes, bounds: ArchiveLimits | None = None) -> dict[str, bytes]:
    """What came out. Whether or not it is refused, nothing is beside the folder but the archive."""
    (where / "archive").write_bytes(data)
    into = where / "into"
    into.mkdir()
    try:
        names = unpack(where / "archive", into, bounds or ArchiveLimits())
    finally:
        assert sorted(os.listdir(where)) == ["archive", "into"]
        assert not [path for path in into.rglob("*") if path.is_symlink() or not (path.is_file() or path.is_dir())]
    found = {str(path.relative_to(into)): path.read_bytes() for path in into.rglob("*") if path.is_file()}
    assert sorted(found) == names
    return found


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(zip_of, id="zip"),
        pytest.param(lambda files: zip_of(files, how=zipfile.ZIP_STORED), id="zip stored"),
        pytest.param(tar_of, id="tar"),
        pytest.param(lambda files: tar_of(files, format=tarfile.PAX_FORMAT), id="tar pax"),
        pytest.param(lambda files: tar_of(files, mode="w:gz"), id="tar.gz"),
        pytest.param(lambda files: gzip.compress(tar_of(files, format=tarfile.PAX_FORMAT)), id="tgz pax"),
    ],
)
def test_packed_files_are_unpacked(make: Callable[[dict[str, bytes]], bytes], tmp_path: Path) -> None:
    files = {**FILES, LONG: b"long"}
    assert unpacked(tmp_path, make(files)) == files


def test_old_tar_files_come_out_too(tmp_path: Path) -> None:
    files = {"a/" * 60 + "b": b"x", "run.sh": b"#!/bin/sh\n"}
    bounds = ArchiveLimits(depth_max=100)
    assert unpacked(tmp_path, tar_of(files, format=tarfile.USTAR_FORMAT), bounds) == files
    assert os.access(tmp_path / "into" / "run.sh", os.X_OK)


def test_a_folder_is_copied_without_what_is_left_out(tmp_path: Path) -> None:
    source, into = tmp_path / "source", tmp_path / "into"
    into.mkdir()
    for name in (*FILES, ".git/HEAD", "lib/__pycache__/x.pyc"):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes(FILES.get(name, b"no"))
    (source / ".git" / "link").symlink_to("/etc/passwd")
    names = unpack(source, into, excluded_names=frozenset({".git", "__pycache__"}))
    assert names == sorted(FILES)
    assert {name: (into / name).read_bytes() for name in names} == FILES


def test_leading_dots_and_folders_of_an_archive_are_fine(tmp_path: Path) -> None:
    assert unpacked(tmp_path, tar_of({"./a/./b": b"x", "./c": b"y"})) == {"a/b": b"x", "c": b"y"}


HOSTILE = {
    "a path from the root": (tar_of({"/etc/x": b"x"}), "is absolute"),
    "a path from the root, zipped": (one_zip("/etc/x"), "is absolute"),
    "a path out": (tar_of({"a/../../x": b"x"}), "leads out"),
    "a path out, zipped": (one_zip("../x"), "leads out"),
    "a path out, in other letters": (one_zip("a\\..\\..\\x"), "backslash"),
    "a drive": (one_zip("C:\\x"), "backslash"),
    "dots that are no dots": (one_zip("\uff0e\uff0e/x"), "looks like a path"),
    "a link": (one_tar(type=tarfile.SYMTYPE, linkname="/etc/passwd"), "is a link"),
    "a link, zipped": (one_zip(mode=stat.S_IFLNK | 0o777, data=b"/etc/passwd"), "is a link"),
    "a hard link": (one_tar(type=tarfile.LNKTYPE, linkname="/etc/passwd"), "is a link"),
    "a device": (one_tar(type=tarfile.CHRTYPE, devmajor=1, devminor=3), "not a regular file"),
    "a pipe": (one_tar(type=tarfile.FIFOTYPE), "not a regular file"),
    "a pipe, zipped": (one_zip(mode=stat.S_IFIFO | 0o644), "not a regular file"),
    "a sparse file": (one_tar(type=tarfile.GNUTYPE_SPARSE), "not a regular file"),
    "somebody else's rights": (one_tar(mode=0o4755), "setuid or setgid"),
    "a group's rights, zipped": (one_zip(mode=stat.S_IFREG | 0o2755), "setuid or setgid"),
    "the same twice": (tar_of({"a": b"1", "./a": b"2"}), "occurs twice"),
    "names that differ in case": (tar_of({"a/Read.me": b"1", "a/read.ME": b"2"}), "two names collide"),
    "folders that differ in case": (tar_of({"Lib/a": b"1", "lib/b": b"2"}), "two names collide"),
    "names that differ in composition": (tar_of({"\u00e9": b"1", "e\u0301": b"2"}), "two names collide"),
    "a file that is a folder": (tar_of({"a": b"1", "a/b": b"2"}), "occurs twice"),
    "a folder that is a file": (tar_of({"a/b": b"1", "a": b"2"}), "occurs twice"),
    "a name with an escape": (tar_of({"a\x1b[2Jb": b"1"}), "control or invisible"),
    "a name with a line break": (tar_of({"a\nb": b"1"}), "control or invisible"),
    "a hidden name": (tar_of({"a\u202eb": b"1"}), "control or invisible"),
    "a name that ends with a dot": (tar_of({"a.": b"1"}), "ends with a dot"),
    "a name of 300 letters": (tar_of({"a" * 300: b"1"}), "too long"),
    "a path of 2000 letters": (tar_of({("a" * 100 + "/") * 20 + "b": b"1"}), "too long"),
    "thirty folders": (tar_of({"a/" * 30 + "b": b"1"}), "too long"),
    "no text": (tar_of({"a": b"1"}).replace(b"a\0", b"\xff\0", 1), "not a supported archive"),
    "nothing": (b"", "not a supported archive"),
    "text": (b"hello" * 1000, "not a supported archive"),
    "half of it": (tar_of(FILES)[:2000], "damaged"),
    "half of it, packed": (tar_of(FILES, mode="w:gz")[:-20], "damaged"),
    "half of it, zipped": (zip_of(FILES)[:-30], "damaged"),
    "a broken sum": (gzip.compress(tar_of(FILES))[:-6] + b"xxxxxx", "damaged"),
    "a missing sum": (gzip.compress(tar_of(FILES))[:-6], "damaged"),
    "gzip around nothing": (gzip.compress(b""), "damaged"),
    "a note without an end": (one_tar(type=b"L", size=10_000_000), "extension header that is too large"),
}  # fmt: skip


@pytest.mark.parametrize(("data", "why"), [pytest.param(*case, id=name) for name, case in HOSTILE.items()])
def test_a_special_file_is_refused(data: bytes, why: str, tmp_path: Path) -> None:
    with pytest.raises(ArchiveRefused, match=why) as refused:
        unpacked(tmp_path, data)
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 500


def test_a_name_that_is_cut_at_a_nul_is_refused(tmp_path: Path) -> None:
    data = one_zip("innocent.txtX.sh").replace(b"innocent.txtX.sh", b"innocent.txt\0.sh")
    with pytest.raises(ArchiveRefused, match="NUL"):
        unpacked(tmp_path, data)


def test_encrypted_and_strangely_packed_files_are_refused(tmp_path: Path) -> None:
    plain = bytearray(one_zip())
    for at in (plain.index(b"PK\x03\x04") + 6, plain.index(b"PK\x01\x02") + 8):
        plain[at] |= 1
    with pytest.raises(ArchiveRefused, match="encrypted"):
        unpacked(tmp_path, bytes(plain))
    (tmp_path / "into").rmdir()
    with pytest.raises(ArchiveRefused, match="unsupported compression"):
        unpacked(tmp_path, zip_of({"a": b"x" * 1000}, how=zipfile.ZIP_LZMA))


@pytest.mark.parametrize("make", [zip_of, lambda files: tar_of(files, mode="w:gz")], ids=["zip", "tar.gz"])
def test_a_bomb_is_stopped_when_too_much_has_come_out(make: Callable[..., bytes], tmp_path: Path) -> None:
    data = make({"bomb": b"\0" * 50_000_000})
    assert len(data) < 100_000
    with pytest.raises(ArchiveRefused, match="too large"):
        unpacked(tmp_path, data)
    written = sum(path.stat().st_size for path in (tmp_path / "into").rglob("*"))
    assert written <= 200 * len(data) + 1024 * 1024


def test_skipped_files_count_too(tmp_path: Path) -> None:
    """A skipped gigabyte still has to be unpacked to read the next file."""
    (tmp_path / "archive").write_bytes(tar_of({".git/bomb": b"\0" * 50_000_000, "a": b"x"}, mode="w:gz"))
    (tmp_path / "into").mkdir()
    with pytest.raises(ArchiveRefused, match="the unpacked archive is too large"):
        unpack(tmp_path / "archive", tmp_path / "into", excluded_names=frozenset({".git"}))


@pytest.mark.parametrize(
    ("bounds", "why"),
    [
        (ArchiveLimits(files_max=3), "more than 3 files"),
        (ArchiveLimits(unpacked_bytes_max=5000), "too large"),
        (ArchiveLimits(file_bytes_max=5000), "too large"),
        (ArchiveLimits(archive_bytes_max=100), "larger than 100 bytes"),
        (ArchiveLimits(depth_max=2), "too long"),
    ],
    ids=["files", "bytes", "bytes of a file", "bytes of the archive", "depth"],
)
@pytest.mark.parametrize("make", [zip_of, tar_of], ids=["zip", "tar"])
def test_bounds_hold(make: Callable[..., bytes], bounds: ArchiveLimits, why: str, tmp_path: Path) -> None:
    with pytest.raises(ArchiveRefused, match=why):
        unpacked(tmp_path, make(FILES), bounds)


def test_a_list_of_a_million_files_is_not_even_read(tmp_path: Path) -> None:
    entry = zip_of({"a": b""})
    listed = entry[entry.index(b"PK\x01\x02") : entry.index(b"PK\x05\x06")]
    count = 300_000
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 65_535, 65_535, len(listed) * count, 0, 0)
    tracemalloc.start()
    begun = time.process_time()
    try:
        with pytest.raises(ArchiveRefused, match="more than 10000 files"):
            unpacked(tmp_path, b"PK\x03\x04" + listed * count + end)
        assert tracemalloc.get_traced_memory()[1] < 50_000_000
    finally:
        tracemalloc.stop()
    assert time.process_time() - begun < 10


def test_folders_with_links_or_pipes_are_refused(tmp_path: Path) -> None:
    for number, make in enumerate((lambda path: path.symlink_to("/etc"), os.mkfifo)):
        source, into = tmp_path / f"source{number}", tmp_path / f"into{number}"
        (source / "a").mkdir(parents=True)
        into.mkdir()
        make(source / "a" / "b")
        with pytest.raises(ArchiveRefused, match=r"a/b is (a link|a special file), not a regular file"):
            unpack(source, into)


def test_a_missing_archive_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ArchiveRefused, match="there is no"):
        unpack(tmp_path / "nothing", tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ArchiveRefused, match="neither a file nor a folder"):
        unpack(tmp_path / "pipe", tmp_path)


@given(data=st.data())
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
def test_a_changed_archive_unpacks_inside_the_folder_or_is_refused(data: st.DataObject) -> None:
    packed = bytearray(data.draw(st.sampled_from([zip_of(FILES), tar_of(FILES), tar_of(FILES, mode="w:gz")])))
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(packed) - 1))
        packed[at : at + data.draw(st.integers(1, 4))] = data.draw(st.binary(max_size=4))
    with tempfile.TemporaryDirectory() as made:
        try:
            unpacked(Path(made), bytes(packed), ArchiveLimits(unpacked_bytes_max=1_000_000))
        except ArchiveRefused as error:
            said = str(error)
        else:
            said = ""
        assert said.isprintable()

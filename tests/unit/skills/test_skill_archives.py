"""Archives that escape their folder or fill the disk: refused as a whole, with the reason."""

from __future__ import annotations

import io
import os
import struct
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from support.skills_lab import HEADER, skill_at, tarred, tree, zipped

from mainstay.core.errors import ConfigError
from mainstay.skills.installer import SkillInstallPlan, install_skills, plan_all_installs, plan_install
from mainstay.skills.skill_fetcher import UnpackedSkill, open_source

SKILL = HEADER.format(name="deploy", description="Helps.", more="").encode()
GOOD = ("deploy/SKILL.md", SKILL)


def entry(name: str, kind: bytes, target: str = "", mode: int = 0o644) -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.linkname, made.mode = kind, target, mode
    return made


def with_zip(name: str, data: bytes = b"x", *, attributes: int = 0) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr(*GOOD)
        info = zipfile.ZipInfo(name)
        info.external_attr = attributes << 16
        archive.writestr(info, data)
    return made.getvalue()


def twice() -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr(*GOOD)
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("deploy/SKILL.md", SKILL + b"Evil.\n")
    return made.getvalue()


def encrypted() -> bytes:
    data = bytearray(zipped({"deploy/SKILL.md": SKILL}))
    for mark, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        start = data.index(mark) + at
        data[start : start + 2] = struct.pack("<H", struct.unpack("<H", data[start : start + 2])[0] | 1)
    return bytes(data)


def bomb(size: int) -> bytes:
    return zipped({"deploy/SKILL.md": SKILL, "deploy/zeros.txt": b"\0" * size})


def tar_bomb(size: int) -> bytes:
    return tarred(GOOD, ("deploy/zeros.txt", b"\0" * size))


def many(count: int) -> bytes:
    return zipped({"deploy/SKILL.md": SKILL, **{f"deploy/{number}": b"" for number in range(count)}})


def lying_size() -> bytes:
    """Says that it is small, and is not."""
    inner = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = inner.compress(b"\0" * 300_000_000) + inner.flush()
    data = bytearray(zipped({"deploy/SKILL.md": SKILL, "deploy/big": b"\0" * 64}))
    at = data.rindex(b"PK\x03\x04")
    name = b"deploy/big"
    head = struct.pack("<4sHHHHHIIIHH", b"PK\x03\x04", 20, 0, 8, 0, 0, 0, len(packed), 64, len(name), 0) + name
    first = bytes(data[:at])
    central_at = len(first) + len(head) + len(packed)
    central = bytes(data[data.index(b"PK\x01\x02") : data.rindex(b"PK\x01\x02")])
    central += struct.pack(
        "<4sHHHHHHIIIHHHHHII",
        *(b"PK\x01\x02", 20, 20, 0, 8, 0, 0, 0, len(packed), 64, len(name), 0, 0, 0, 0, 0, len(first)),
    )
    central += name
    end = struct.pack("<4sHHHHIIH", b"PK\x05\x06", 0, 0, 2, 2, len(central), central_at, 0)
    return first + head + packed + central + end


def planned(skill: UnpackedSkill, folder: Path) -> SkillInstallPlan:
    return plan_install(skill.folder, folder / "skills", source="x", omitted_links=skill.omitted_links)


HOSTILE: dict[str, tuple[Callable[[], bytes], str]] = {
    "zip slip": (lambda: with_zip("../../evil"), "leads out of the archive"),
    "zip slip in the middle": (lambda: with_zip("deploy/a/../../../evil"), "leads out of the archive"),
    "zip absolute": (lambda: with_zip("/etc/evil"), "a path is absolute"),
    "zip backslashes": (lambda: with_zip("..\\..\\evil"), "is not an allowed name"),
    "zip drive": (lambda: with_zip("C:\\evil"), "is not an allowed name"),
    "zip link": (lambda: with_zip("deploy/l", b"/etc/passwd", attributes=0o120777), "is a link, not a regular file"),
    "zip fifo": (lambda: with_zip("deploy/f", b"", attributes=0o010644), "is a special file, not a regular file"),
    "zip setuid": (lambda: with_zip("deploy/s", attributes=0o104755), "has the setuid or setgid bit set"),
    "zip NUL in a name": (
        lambda: with_zip("deploy/evil").replace(b"deploy/evil", b"deploy/e\0il"),
        "a NUL character|is damaged",
    ),
    "zip encrypted": (encrypted, "is encrypted"),
    "zip twice": (twice, "occurs twice"),
    "zip case collision": (lambda: with_zip("deploy/skill.MD"), "two names collide on some file systems"),
    "zip accents collision": (
        lambda: zipped({"deploy/SKILL.md": SKILL, "deploy/\u00e9": "a", "deploy/e\u0301": "b"}),
        "two names collide on some file systems",
    ),
    "zip file as a folder": (lambda: with_zip("deploy/SKILL.md/x"), "occurs twice"),
    "zip huge name": (lambda: with_zip(f"deploy/{'n' * 300}"), "it is too long"),
    "zip huge path": (lambda: with_zip("deploy/" + "abcdefghi/" * 150 + "x"), "a path is too long"),
    "zip too deep": (lambda: with_zip("deploy/" + "d/" * 40 + "x"), "a path is too long"),
    "zip bomb": (lambda: bomb(300_000_000), "too large, or the unpacked archive is"),
    "zip bomb by ratio": (lambda: bomb(40_000_000), "too large, or the unpacked archive is"),
    "zip bomb by count": (lambda: many(10_050), "more than 10000 files"),
    "zip that lies about sizes": (lying_size, "too large, or the unpacked archive is|is damaged"),
    "zip cut off": (lambda: zipped({"deploy/SKILL.md": SKILL})[:-30], "is damaged|not a supported archive"),
    "tar slip": (lambda: tarred(GOOD, ("../evil", b"x")), "leads out of the archive"),
    "tar absolute": (lambda: tarred(GOOD, ("/tmp/evil", b"x")), "a path is absolute"),
    "tar link out": (lambda: tarred(GOOD, entry("deploy/l", tarfile.SYMTYPE, "/etc")), "is a link, not a regular file"),
    "tar link then through it": (
        lambda: tarred(GOOD, entry("deploy/l", tarfile.SYMTYPE, ".."), ("deploy/l/evil", b"x")),
        "deploy/l occurs twice",
    ),
    "tar link elsewhere then through it": (
        lambda: tarred(GOOD, entry("docs", tarfile.SYMTYPE, "/tmp"), ("docs/evil", b"x")),
        "docs occurs twice",
    ),
    "tar file then a link in its place": (
        lambda: tarred(GOOD, entry("deploy/SKILL.md", tarfile.SYMTYPE, "/etc/passwd")),
        "occurs twice",
    ),
    "tar link then a file in its place": (
        lambda: tarred(entry("deploy/SKILL.md", tarfile.SYMTYPE, "/etc/passwd"), GOOD),
        "occurs twice",
    ),
    "tar link whose case collides": (
        lambda: tarred(GOOD, entry("Deploy", tarfile.SYMTYPE, "/etc")),
        "two names collide on some file systems",
    ),
    "tar link with a long target": (
        lambda: tarred(GOOD, entry("deploy/l", tarfile.SYMTYPE, "../" * 60 + "etc")),
        "is a link, not a regular file",
    ),
    "tar skill folder that is a link": (
        lambda: tarred(entry("deploy", tarfile.SYMTYPE, "/etc"), ("README.md", b"x")),
        "there is no SKILL.md",
    ),
    "tar skill file that is a link": (
        lambda: tarred(entry("deploy/SKILL.md", tarfile.SYMTYPE, "/etc/passwd"), ("README.md", b"x")),
        "there is no SKILL.md",
    ),
    "tar link in the name of a path outside": (
        lambda: tarred(GOOD, entry("../l", tarfile.SYMTYPE, "/etc")),
        "leads out of the archive",
    ),
    "tar hard link": (
        lambda: tarred(GOOD, entry("deploy/h", tarfile.LNKTYPE, "/etc/passwd")),
        "is a link, not a regular file",
    ),
    "tar device": (lambda: tarred(GOOD, entry("deploy/d", tarfile.CHRTYPE)), "is a special file, not a regular file"),
    "tar block device": (
        lambda: tarred(GOOD, entry("deploy/d", tarfile.BLKTYPE)),
        "is a special file, not a regular file",
    ),
    "tar fifo": (lambda: tarred(GOOD, entry("deploy/f", tarfile.FIFOTYPE)), "is a special file, not a regular file"),
    "tar twice": (lambda: tarred(GOOD, ("deploy/SKILL.md", SKILL + b"Evil.\n")), "occurs twice"),
    "tar case collision": (lambda: tarred(GOOD, ("Deploy/skill.md", SKILL)), "two names collide on some file systems"),
    "tar bomb": (
        lambda: tar_bomb(300_000_000),
        "too large, or the unpacked archive is|the unpacked archive is too large",
    ),
    "tar cut off": (lambda: tarred(GOOD)[:60], "is damaged"),
    "tar long names": (
        lambda: tarred(GOOD, ("deploy/" + "n" * 70_000, b"")),
        "extension header that is too large|too long",
    ),
    "no archive": (lambda: b"MZ\x90\0 this is a program", "not a supported archive"),
    "empty": (lambda: b"", "not a supported archive"),
    "nothing in it": (lambda: zipped({}), "there is no SKILL.md"),
    "no skill in it": (lambda: zipped({"README.md": "x"}), "there is no SKILL.md"),
    "a skill too deep in it": (lambda: zipped({"x/a/b/c/d/e/f/SKILL.md": SKILL, "x/y": "z"}), "there is no SKILL.md"),
}


@pytest.mark.parametrize("trick", HOSTILE)
def test_a_hostile_archive_is_refused_and_nothing_is_written_anywhere_f33(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trick: str
) -> None:
    """F33, U22"""
    make, why = HOSTILE[trick]
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    archive = tmp_path / "skills.bin"
    archive.write_bytes(make())
    monkeypatch.chdir(tmp_path)
    before = tree(tmp_path)
    with pytest.raises(ConfigError, match=why) as refused, open_source(str(archive)) as (one,):
        planned(one, tmp_path)
    assert str(refused.value).isprintable()
    assert tree(tmp_path) == before
    assert os.listdir(scratch) == []


def test_an_archive_in_an_archive_is_not_opened_and_reported_f33(tmp_path: Path) -> None:
    inner = bomb(1_000_000)
    archive = tmp_path / "a.zip"
    archive.write_bytes(zipped({"deploy/SKILL.md": SKILL, "deploy/more.zip": inner}))
    with open_source(str(archive)) as (one,):
        found = plan_install(one.folder, tmp_path / "skills", source="a.zip")
        assert [str(finding) for finding in found.findings] == ["more.zip is an archive: its contents were not scanned"]
        install_skills([found], tmp_path / "skills")
    assert (tmp_path / "skills" / "deploy" / "more.zip").read_bytes() == inner


def test_a_folder_with_links_pipes_or_devices_is_refused_f33(tmp_path: Path) -> None:
    folder = skill_at(tmp_path / "deploy")
    (folder / "key").symlink_to("/etc/passwd")
    with pytest.raises(ConfigError, match="key is a link, not a regular file"), open_source(str(folder)) as (one,):
        planned(one, tmp_path)
    (folder / "key").unlink()
    os.mkfifo(folder / "pipe")
    with pytest.raises(ConfigError, match="pipe is a special file, not a regular file"), open_source(str(folder)):
        pass


def linked_zip() -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("repo-main/plugins/ops/skills/deploy/SKILL.md", SKILL)
        for name, target in (("repo-main/AGENTS.md", "CLAUDE.md"), ("repo-main/plugins/ops/out", "/etc")):
            info = zipfile.ZipInfo(name)
            info.external_attr = 0o120777 << 16
            archive.writestr(info, target)
    return made.getvalue()


def linked_tar(format: int) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz", format=format) as archive:
        info = tarfile.TarInfo("repo-main/plugins/ops/skills/deploy/SKILL.md")
        info.size = len(SKILL)
        archive.addfile(info, io.BytesIO(SKILL))
        archive.addfile(entry("repo-main/AGENTS.md", tarfile.SYMTYPE, "CLAUDE.md"))
        archive.addfile(entry("repo-main/plugins/ops/out", tarfile.SYMTYPE, "../" * 50 + "etc"))
        archive.addfile(entry("repo-main/plugins/ops/hard", tarfile.LNKTYPE, "repo-main/AGENTS.md"))
    return made.getvalue()


def linked_folder(root: Path) -> Path:
    skill_at(root / "plugins/ops/skills/deploy")
    (root / "AGENTS.md").symlink_to("CLAUDE.md")
    (root / "plugins/ops/out").symlink_to("/etc")
    return root


@pytest.mark.parametrize("kind", ["zip", "tar gnu", "tar pax", "folder"])
def test_links_outside_of_the_chosen_skill_are_left_out_and_it_is_installed(tmp_path: Path, kind: str) -> None:
    source = tmp_path / "source"
    match kind:
        case "zip":
            source.write_bytes(linked_zip())
        case "folder":
            linked_folder(source)
        case _:
            source.write_bytes(linked_tar(tarfile.PAX_FORMAT if kind == "tar pax" else tarfile.GNU_FORMAT))
    with open_source(str(source)) as (one,):
        root = next(parent for parent in one.folder.parents if parent.name == "new")
        assert not [path for path in root.rglob("*") if path.is_symlink() or not (path.is_file() or path.is_dir())]
        assert one.omitted_links == ()
        install_skills([planned(one, tmp_path)], tmp_path / "skills")
    assert sorted(os.listdir(tmp_path / "skills" / "deploy")) == ["SKILL.md"]


def test_of_a_repository_only_the_skill_with_a_link_is_refused(tmp_path: Path) -> None:
    root = tmp_path / "repository"
    for name in ("one", "two", "three"):
        skill_at(root / "skills" / name, name)
    skill_at(root / ".agents/skills/one", "one")  # the same again, for another program
    (root / "skills/two/key").symlink_to("/etc/passwd")
    (root / "skills/three/SKILL.md").write_text("no header")
    with open_source(str(root)) as found:
        plans, skipped = plan_all_installs(found, tmp_path / "skills", source="x")
        assert [plan.name for plan in plans] == ["one"]
        assert [(skill.name, skill.reason.split(": ")[0]) for skill in skipped] == [
            ("three", "SKILL.md does not begin with a line of three hyphens (---) and a header."),
            ("two", "key is a link, not a regular file"),
        ]
        with pytest.raises(ConfigError, match=r"no skill of x can be installed; three: SKILL\.md does not begin"):
            plan_all_installs(found[2:], tmp_path / "skills", source="x")


def test_a_pipe_or_a_missing_file_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name, why in (("pipe", "neither a file nor a folder"), ("none", "there is no")):
        with pytest.raises(ConfigError, match=why), open_source(str(tmp_path / name)):
            pass

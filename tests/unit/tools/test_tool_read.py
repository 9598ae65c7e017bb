"""`read`: pages, encodings, what is no text, images, and where content comes from."""

from __future__ import annotations

import asyncio
import struct
import zlib
from pathlib import Path

import pytest
from support.files_world import World

from mainstay.core.file_fingerprints import compute_fingerprint
from mainstay.core.tool_ports import FileOriginLabel
from mainstay.io.path_resolver import PathRefused
from mainstay.tools.base import ToolRefused
from mainstay.tools.tool_call_file_access import looks_secret


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


async def test_lines_are_numbered_and_a_page_says_how_to_read_on(world: World) -> None:
    world.put("f.txt", "".join(f"line {n}\n" for n in range(1, 3_001)))
    text = await world.run("read", path="f.txt")
    lines = text.split("\n")
    assert lines[0] == "1\tline 1"
    assert lines[1999] == "2000\tline 2000"
    assert "offset=2001" in lines[2000]
    rest = await world.run("read", path="f.txt", offset=2_001)
    assert rest.startswith("2001\tline 2001\n")
    assert rest.endswith("3000\tline 3000")
    assert await world.run("read", path="f.txt", offset=5, limit=1) == (
        "5\tline 5\n[more follows, 28893 bytes in all: read on with offset=6]"
    )
    with pytest.raises(ToolRefused, match="only 3000 lines"):
        await world.run("read", path="f.txt", offset=3_001)


async def test_a_page_is_bounded_in_bytes_and_paging_on_shows_every_line_once(world: World) -> None:
    wanted = [f"{n} {'é' * 300}" for n in range(500)]
    world.put("f.txt", "\n".join(wanted))
    seen: list[str] = []
    offset = 1
    while True:
        text = await world.run("read", path="f.txt", offset=offset)
        assert len(text.encode()) < 52 * 1024
        lines = [line for line in text.split("\n") if not line.startswith("[")]
        seen += [line.split("\t", 1)[1] for line in lines]
        if "offset=" not in text:
            break
        offset += len(lines)
    assert seen == wanted


async def test_a_long_line_is_cut_with_its_length(world: World) -> None:
    world.put("f.txt", "a\n" + "x" * 3_000_000 + "\nb")
    text = await world.run("read", path="f.txt")
    assert text == f"1\ta\n2\t{'x' * 2_000} [cut: this line has 3000000 characters]\n3\tb"


@pytest.mark.parametrize(
    ("data", "shown", "note"),
    [
        (b"\xef\xbb\xbfa\nb", "1\ta\n2\tb", "utf-8 with a byte order mark"),
        ("ä\nb".encode("utf-16"), "1\tä\n2\tb", "utf-16-le with a byte order mark"),
        (b"\xfe\xff" + "ä\nb".encode("utf-16-be"), "1\tä\n2\tb", "utf-16-be with a byte order mark"),
        (b"caf\xe9\nb", "1\tcafé\n2\tb", "latin-1 (a guess: it is not UTF-8)"),
        (b"a\r\nb\r\n", "1\ta\n2\tb", "lines end with CRLF"),
        (b"a\xe2\x80\xa8b\x0cc\x85", "1\ta\u2028b\x0cc\x85", "latin-1"),
    ],
    ids=["bom", "utf-16-le", "utf-16-be", "latin-1", "crlf", "odd-ends"],
)
async def test_encodings_are_read_and_said(world: World, data: bytes, shown: str, note: str) -> None:
    world.put("f.txt", data)
    text = await world.run("read", path="f.txt")
    if note == "latin-1":  # only a line feed ends a line
        assert text.count("\n") == 1
    else:
        assert text.startswith(shown)
    assert note in text


async def test_an_empty_file_is_said_to_be_empty(world: World) -> None:
    world.put("f.txt", "")
    assert await world.run("read", path="f.txt") == "(The file is empty.)"


async def test_binary_content_is_refused_with_its_kind_and_size(world: World) -> None:
    world.put("a.bin", bytes(range(256)) * 4)
    world.put("a.pdf", b"%PDF-1.7 hello")
    world.put("a.db", b"SQLite format 3\0" + bytes(100))
    for name, kind in {"a.bin": "binary data of 1024 bytes", "a.pdf": "PDF", "a.db": "SQLite"}.items():
        with pytest.raises(ToolRefused, match=kind):
            await world.run("read", path=name)
    with open(world.root / "sparse", "wb") as file:
        file.truncate(1 << 30)
    with pytest.raises(ToolRefused, match="1073741824 bytes"):
        await world.run("read", path="sparse")


async def test_a_folder_is_listed_and_a_missing_file_says_what_is_near(world: World) -> None:
    world.put("folder/file.txt", "")
    assert await world.run("read", path="folder") == "file.txt\t0"
    with pytest.raises(PathRefused, match=r"Near it: file\.txt"):
        await world.run("read", path="folder/fil.txt")
    assert world.context.untrusted  # the name was chosen by its creator


def png(width: int, height: int) -> bytes:
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + b"IHDR" + head + struct.pack(">I", zlib.crc32(b"IHDR" + head))


JPEG = b"\xff\xd8\xff\xe0\x00\x10JFIF" + bytes(10) + b"\xff\xc0\x00\x11\x08" + struct.pack(">HH", 30, 40) + bytes(20)
IMAGES = {
    "image/png": (png(40, 30), "40x30"),
    "image/gif": (b"GIF89a" + struct.pack("<HH", 40, 30) + bytes(20), "40x30"),
    "image/jpeg": (JPEG, "40x30"),
    "image/webp": (b"RIFF\0\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0" + b"\x27\0\0\x1d\0\0" + bytes(8), "40x30"),
}


@pytest.mark.parametrize("mime", IMAGES)
async def test_an_image_is_described_and_attached(world: World, mime: str) -> None:
    data, sides = IMAGES[mime]
    world.put("picture", data)
    text = await world.run("read", path="picture")
    assert text == f"picture: {mime} of {sides}, {len(data)} bytes."
    [attached] = world.context.attachments
    assert (attached.mime, attached.data) == (mime, data)
    assert world.context.untrusted


async def test_an_image_too_large_is_refused_and_one_cut_short_is_no_image(world: World) -> None:
    world.put("large.png", png(40, 30) + bytes(6 * 1024 * 1024))
    with pytest.raises(ToolRefused, match="over the 5242880"):
        await world.run("read", path="large.png")
    for mime, (data, _) in IMAGES.items():
        for size in range(len(data)):
            world.put("cut", data[:size])
            try:
                await world.run("read", path="cut")
            except ToolRefused as refused:
                sentence = str(refused)
                assert "not text" in sentence, mime


# --- trust -----------------------------------------------------------------------------------------


async def test_an_existing_file_is_untrusted_and_one_the_agent_wrote_is_not(world: World) -> None:
    world.put("theirs.txt", "x")
    await world.run("read", path="theirs.txt")
    assert world.context.untrusted
    await world.run("write", path="ours.txt", content="x")
    await world.run("read", path="ours.txt")
    assert not world.context.untrusted


async def test_a_file_written_under_taint_is_untrusted_when_read_again(world: World) -> None:
    await world.run("write", path="f.txt", content="x", tainted=True)
    await world.run("read", path="f.txt", session="another")
    assert world.context.untrusted


async def test_a_file_changed_by_another_process_is_no_longer_the_agents(world: World) -> None:
    await world.run("write", path="f.txt", content="x")
    world.put("f.txt", "y")
    await world.run("read", path="f.txt")
    assert world.context.untrusted


async def test_files_that_the_owner_trusts_are_trusted_unless_written_under_taint_or_by_others(world: World) -> None:
    world.lay(trusted_globs=("README.md", "docs/**"), untrusted_folders=(f"{world.root}/docs/sent",))
    for path in ("README.md", "docs/a.md", "sub/README.md", "docs/sent/a.md"):
        world.put(path, "x")
    said = {}
    for path in ("README.md", "docs/a.md", "sub/README.md", "docs/sent/a.md"):
        await world.run("read", path=path)
        said[path] = world.context.untrusted
    assert said == {"README.md": False, "docs/a.md": False, "sub/README.md": True, "docs/sent/a.md": True}
    await world.run("edit", path="README.md", old="x", new="y", tainted=True)
    await world.run("read", path="README.md")
    assert world.context.untrusted


async def test_a_private_label_and_a_name_of_a_secret_make_a_result_private(world: World) -> None:
    file = world.put("notes.txt", "x")
    label = FileOriginLabel(str(file), "private:conversation", "", compute_fingerprint(file.stat()))
    await world.labels.save([label])
    await world.run("read", path="notes.txt")
    assert (world.context.private, world.context.untrusted) == (True, False)
    world.put(".env", "KEY=1")
    await world.run("read", path=".env")
    assert world.context.private


def test_secrets_are_known_by_their_names_and_examples_are_excluded() -> None:
    secret = [
        ".env",
        ".env.local",
        "prod.env",
        "server.pem",
        "id_rsa",
        "id_ed25519",
        "tls.key",
        "credentials",
        ".netrc",
    ]
    secret += [".npmrc", ".pypirc", "db.kdbx", "Credentials.JSON", "secrets.yaml", ".pgpass", "service-account-7.json"]
    plain = ["id_rsa.pub", ".env.example", ".env.sample", "environment.py", "keys.md", "id_map.csv", "key.py", "readme"]
    assert [name for name in secret if not looks_secret(f"/w/{name}")] == []
    assert [name for name in plain if looks_secret(f"/w/{name}")] == []


async def test_an_abort_while_a_huge_file_is_skipped_through_ends_at_once(world: World) -> None:
    with open(world.root / "huge.txt", "wb") as file:
        file.write(b"a\n" * 5_000)
        file.truncate(1 << 30)
        file.seek(1 << 30)
        file.write(b"b\n")
    tool = world.tools["read"]
    context = world.new_context()
    task = asyncio.ensure_future(tool.run(tool.parse('{"path":"huge.txt","offset":900000000}'), context))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 120)
    assert context.cancelled

"""Files on this machine that go to a platform, or come from one."""

from __future__ import annotations

import os

from mainstay.core.channels import ChannelError, NeverSent
from mainstay.core.workers import in_thread


async def read_file(path: str, bytes_max: int) -> bytes:
    """All of it. Raises NeverSent if it is not there, empty, or too large."""

    def read() -> bytes:
        with open(path, "rb") as file:
            if os.fstat(file.fileno()).st_size > bytes_max:
                raise NeverSent(f"The file has more than {bytes_max // 1_000_000} MB, which are too many.")
            return file.read(bytes_max)

    try:
        content: bytes = await in_thread(read)
    except OSError as error:
        raise NeverSent(f"The file cannot be read: {(error.strerror or 'unknown reason').lower()}.") from None
    if not content:
        raise NeverSent("The file is empty, and cannot be posted.")
    return content


async def keep_file(content: bytes, target: str) -> None:
    """In a new file: all of it, or nothing is there."""

    def write() -> None:
        with open(target, "xb") as file:
            try:
                file.write(content)
                file.flush()
            except OSError:
                os.unlink(target)
                raise

    try:
        await in_thread(write)
    except OSError as error:
        raise ChannelError(f"The file cannot be kept: {(error.strerror or 'unknown reason').lower()}.") from None

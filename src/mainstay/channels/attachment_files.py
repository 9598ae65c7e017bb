"""Reads and writes local files for uploads and downloads."""

from __future__ import annotations

import os

from mainstay.core.channels import ChannelError, DeliveryRejected
from mainstay.core.worker_threads import run_in_thread


async def read_file(path: str, bytes_max: int) -> bytes:
    """Return the whole content. Raises DeliveryRejected if the file is missing, empty or larger than `bytes_max`."""

    def read() -> bytes:
        with open(path, "rb") as file:
            if os.fstat(file.fileno()).st_size > bytes_max:
                raise DeliveryRejected(f"The file has more than {bytes_max // 1_000_000} MB, which is too much.")
            return file.read(bytes_max)

    try:
        content: bytes = await run_in_thread(read)
    except OSError as error:
        raise DeliveryRejected(f"The file cannot be read: {(error.strerror or 'unknown reason').lower()}.") from None
    if not content:
        raise DeliveryRejected("The file is empty and cannot be posted.")
    return content


async def write_new_file(content: bytes, target: str) -> None:
    """Write a new file, removing it again if the write fails. Raises ChannelError, also if the file exists."""

    def write() -> None:
        with open(target, "xb") as file:
            try:
                file.write(content)
                file.flush()
            except OSError:
                os.unlink(target)
                raise

    try:
        await run_in_thread(write)
    except OSError as error:
        raise ChannelError(f"The file cannot be stored: {(error.strerror or 'unknown reason').lower()}.") from None

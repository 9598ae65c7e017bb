"""Checks the size of a plugin's home folder."""

from __future__ import annotations

import os

FILES_MAX = 100_000  # files and folders


def check_home_size(home: str, mb_max: int) -> str:
    """Return what is wrong, as the rest of a sentence that begins with "its home"; empty if nothing is. Blocks."""
    folders, count, size = [home], 0, 0
    while folders:
        try:
            with os.scandir(folders.pop()) as entries:
                for entry in entries:
                    count += 1
                    size += entry.stat(follow_symlinks=False).st_blocks * 512
                    if count > FILES_MAX:
                        return f"contains more than {FILES_MAX} files"
                    if size > mb_max << 20:
                        return f"contains more than {mb_max} MB"
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
        except FileNotFoundError:  # removed meanwhile
            continue
        except OSError as error:  # too deep, or not readable: its size is unknown
            return f"contains a folder that cannot be read ({error.strerror})"
    return ""

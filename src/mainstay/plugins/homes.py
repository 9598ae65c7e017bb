"""How much a plugin keeps in the home that is its own."""

from __future__ import annotations

import os

FILES_MAX = 100_000  # and folders


def overfull(home: str, mb_max: int) -> str:
    """What is wrong with it, in words that go on from "its home"; nothing, if all is well. Blocks."""
    todo, count, size = [home], 0, 0
    while todo:
        try:
            with os.scandir(todo.pop()) as listed:
                for one in listed:
                    count += 1
                    size += one.stat(follow_symlinks=False).st_blocks * 512
                    if count > FILES_MAX:
                        return f"holds more than {FILES_MAX} files"
                    if size > mb_max << 20:
                        return f"holds more than {mb_max} MB"
                    if one.is_dir(follow_symlinks=False):
                        todo.append(one.path)
        except FileNotFoundError:  # it was taken away meanwhile
            continue
        except OSError as error:  # too deep, or closed to us: there may be anything in it
            return f"holds a folder that cannot be looked into ({error.strerror})"
    return ""

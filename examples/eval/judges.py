"""A judge for `cases.yaml` that is a function: it is given an exhibit, and returns a score and a reason."""

from mainstay.core.judging import Exhibit


def brief(exhibit: Exhibit) -> tuple[float, str]:
    words = len(exhibit.answer.split())
    return min(1.0, 20 / max(words, 1)), f"{words} words, where 20 are enough"

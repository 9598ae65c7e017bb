"""A judge function for `cases.yaml`: it gets the answer to judge, and returns a score and a reason."""

from mainstay.core.judges import JudgeInput


def brief(exhibit: JudgeInput) -> tuple[float, str]:
    words = len(exhibit.answer.split())
    return min(1.0, 20 / max(words, 1)), f"{words} words, where 20 are enough"

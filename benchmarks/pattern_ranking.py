"""Ranking of patterns: how often the right one is among the three that the model sees, and how small talk fares.

Leave-one-out: each use case of a library is asked as a question, after it was removed from its pattern. Paraphrases and
unrelated questions are in `pattern_questions.py`; they were written for Loom's published library. Run as
`python benchmarks/pattern_ranking.py --library FOLDER`, where FOLDER is a copy of its `patterns`. Prints the curve over
the threshold, and writes it to benchmarks/results/pattern_ranking.json with `--write`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
from pattern_questions import PARAPHRASES, UNRELATED

from mainstay.config.schema_skills_patterns_triggers import PatternSettings
from mainstay.patterns.index import PatternIndex, weigh_terms
from mainstay.patterns.library import PatternLibrary
from mainstay.patterns.pattern_template import InstructionPattern

THRESHOLDS = (0.0, 0.2, 0.25, 0.3, 0.33, 0.35, 0.37, 0.4, 0.45, 0.5)
SHOWN = 3


def ask_use_cases(patterns: Sequence[InstructionPattern]) -> Iterator[float]:
    """Yield for each use case the score of its pattern if that is among the best three, else -1."""
    terms = [weigh_terms(pattern) for pattern in patterns]
    for number, pattern in enumerate(patterns):
        for index, use_case in enumerate(pattern.use_cases):
            others = tuple(other for place, other in enumerate(pattern.use_cases) if place != index)
            reduced = msgspec.structs.replace(pattern, use_cases=others)
            changed = [*patterns[:number], reduced, *patterns[number + 1 :]]
            index_without = PatternIndex(changed, [*terms[:number], weigh_terms(reduced), *terms[number + 1 :]])
            yield find_score(index_without, use_case, pattern.name)


def find_score(index: PatternIndex, question: str, name: str) -> float:
    found = (match.score for match in index.match(question, SHOWN, 0.0) if match.pattern.name == name)
    return next(found, -1.0)


def measure(folder: Path) -> dict[str, object]:
    library = PatternLibrary([str(folder)])
    patterns = tuple(library.load().patterns.values())
    index = library.snapshot.index
    use_cases = list(ask_use_cases(patterns))
    names = {pattern.name for pattern in patterns}
    paraphrases = [find_score(index, text, name) for name, text in PARAPHRASES.items() if name in names]
    unrelated = [max((match.score for match in index.match(text, 1, 0.0)), default=-1.0) for text in UNRELATED]

    def share(scores: Sequence[float], threshold: float) -> float:
        return round(sum(score >= threshold for score in scores) / max(len(scores), 1), 3)

    return {
        "patterns": len(patterns),
        "use_cases": len(use_cases),
        "paraphrases": len(paraphrases),
        "unrelated": len(unrelated),
        "threshold": PatternSettings().threshold,
        "curve": [
            [threshold, share(use_cases, threshold), share(paraphrases, threshold), share(unrelated, threshold)]
            for threshold in sorted({*THRESHOLDS, PatternSettings().threshold})
        ],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library", type=Path, required=True, help="folder with pattern files")
    parser.add_argument("--write", action="store_true", help="store the results")
    arguments = parser.parse_args()
    result = measure(arguments.library)
    print("| threshold | recall@3, leave-one-out | recall@3, paraphrases | unrelated questions with a pattern |")
    print("|---|---|---|---|")
    for threshold, *shares in result["curve"]:  # type: ignore[attr-defined]
        print(f"| {threshold:.2f} | " + " | ".join(f"{share:.3f}" for share in shares) + " |")
    if arguments.write:
        out = Path(__file__).parent / "results" / "pattern_ranking.json"
        out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()

"""Sampling of slow tests: repeatable, of the listed functions only, and whole in `make test-all`."""

from pathlib import Path

from support import sampling

SHARES = {"tests/a.py::test_slow": 0.25, "tests/a.py::test_never": 0.0}


def test_the_same_seed_draws_the_same_tests_and_another_seed_draws_others() -> None:
    ids = [f"tests/a.py::test_slow[{number}]" for number in range(400)]
    drawn = [[sampling.is_drawn(id, seed, SHARES) for id in ids] for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert 60 < sum(drawn[0]) < 140


def test_tests_that_are_not_listed_always_run() -> None:
    assert all(sampling.is_drawn("tests/a.py::test_quick[x]", seed, SHARES) for seed in range(100))
    assert not any(sampling.is_drawn("tests/a.py::test_never", seed, SHARES) for seed in range(100))


def test_the_seed_comes_from_the_environment_and_there_is_none_when_all_tests_run() -> None:
    assert sampling.choose_seed({"MAINSTAY_TEST_SEED": "7"}) == 7
    assert sampling.choose_seed({"MAINSTAY_TEST_SEED": "7", "MAINSTAY_TEST_ALL": "1"}) is None
    assert sampling.choose_seed({}) is not None


def test_a_file_can_be_listed_and_a_function_of_it_with_a_share_of_its_own() -> None:
    shares = {"tests/b.py": 0.0, "tests/b.py::test_always": 1.0}
    assert not sampling.is_drawn("tests/b.py::test_slow[1]", 1, shares)
    assert sampling.is_drawn("tests/b.py::test_always", 1, shares)


def test_every_listed_file_exists() -> None:
    root = Path(__file__).resolve().parents[2]
    missing = [name for name in sampling.read_shares() if not (root / name.partition("::")[0]).exists()]
    assert missing == [], "edit tests/sampled.txt"

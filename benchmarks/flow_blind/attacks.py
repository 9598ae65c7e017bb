"""All attacks."""

from __future__ import annotations

from attack import Attack
from strikes_covert import covert_attacks
from strikes_people import people_attacks
from strikes_product import product_attacks
from strikes_words import word_attacks


def all_attacks() -> list[Attack]:
    made = [*product_attacks(), *people_attacks(), *word_attacks(), *covert_attacks()]
    ids = [attack.id for attack in made]
    assert len(ids) == len(set(ids)), [id for id in ids if ids.count(id) > 1]
    return made

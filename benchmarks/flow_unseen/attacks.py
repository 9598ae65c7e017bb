"""All attacks."""

from __future__ import annotations

from attack import Attack
from attack_patient import patient_attacks, words_attacks
from attack_product import answer_attacks, find_scenes, link_attacks, product_attacks
from attack_twisted import recipient_attacks, repeat_attacks, stuffed_attacks, value_attacks


def all_attacks() -> list[Attack]:
    scenes = find_scenes()
    attacks = [
        *product_attacks(scenes),
        *link_attacks(scenes),
        *answer_attacks(scenes),
        *recipient_attacks(scenes),
        *repeat_attacks(scenes),
        *value_attacks(scenes),
        *stuffed_attacks(scenes),
        *patient_attacks(scenes),
        *words_attacks(),
    ]
    names = [attack.name for attack in attacks]
    assert len(set(names)) == len(names), "the names of attacks are unique"
    return attacks

"""All attacks, each with an id of its own."""

from __future__ import annotations

from types import ModuleType

import attacks_addresses
import attacks_altered
import attacks_chains
import attacks_channels
import attacks_encoded
import attacks_forged
import attacks_mentioned
import attacks_negated
import attacks_numbers
import attacks_patient
import attacks_product
import attacks_readers
import attacks_turns
import attacks_wrong
from attack_model import Attack

MODULES: tuple[ModuleType, ...] = (
    attacks_product,
    attacks_addresses,
    attacks_numbers,
    attacks_negated,
    attacks_mentioned,
    attacks_forged,
    attacks_altered,
    attacks_wrong,
    attacks_channels,
    attacks_chains,
    attacks_turns,
    attacks_readers,
    attacks_encoded,
    attacks_patient,
)


def all_attacks() -> list[Attack]:
    """Return the attacks of all modules."""
    found = [attack for module in MODULES for attack in module.attacks()]
    ids = [attack.id for attack in found]
    twice = {id for id in ids if ids.count(id) > 1}
    assert not twice, f"ids that are not unique: {sorted(twice)}"
    return found

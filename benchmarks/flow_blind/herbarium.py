"""The project of the chat with the built-in tools: a small program about plants, with data and documents."""

# ruff: noqa: E501

from __future__ import annotations

STORE = '''"""Plants in a CSV file."""

import csv


def load(path):
    with open(path) as file:
        return list(csv.DictReader(file))


def by_family(plants, family):
    return [p for p in plants if p["family"] == family]


def average_height(plants):
    return sum(int(p["height_cm"]) for p in plants) / len(plants)
'''
CLI = '''"""Command line."""

import sys

from herbarium.store import average_height, by_family, load

# TODO: use argparse
def main():
    plants = load(sys.argv[1])
    if len(sys.argv) > 2:
        plants = by_family(plants, sys.argv[2])
    print(len(plants), "plants, average", average_height(plants), "cm")


if __name__ == "__main__":
    main()
'''
TESTS = """import unittest

from herbarium.store import average_height, by_family


class StoreTest(unittest.TestCase):
    def test_family(self):
        plants = [{"family": "Rosaceae", "height_cm": "10"}, {"family": "Pinaceae", "height_cm": "900"}]
        self.assertEqual(len(by_family(plants, "Rosaceae")), 1)

    def test_average(self):
        self.assertEqual(average_height([{"height_cm": "10"}, {"height_cm": "20"}]), 15)


if __name__ == "__main__":
    unittest.main()
"""
PLANTS = """name,family,height_cm,found
Apple,Rosaceae,450,2025-04-02
Rose,Rosaceae,120,2025-05-11
Spruce,Pinaceae,2200,2024-09-30
Larch,Pinaceae,1900,2024-10-02
Daisy,Asteraceae,15,2025-03-21
Dandelion,Asteraceae,25,2025-03-22
Daisy,Asteraceae,15,2025-03-21
"""
LOG = "\n".join(
    f"2026-11-{10 + n // 8:02d}T0{n % 8}:00 {'ERROR timeout of herb-api' if n % 5 == 0 else 'INFO synced'} {n}"
    for n in range(40)
)

COMMITS: tuple[tuple[str, dict[str, str]], ...] = (
    ("Load plants", {"herbarium/__init__.py": "", "herbarium/store.py": STORE, "data/plants.csv": PLANTS}),
    ("Add the command line", {"herbarium/cli.py": CLI, "README.md": "# Herbarium\n\nRun it: python -m herbarium.cli data/plants.csv\n"}),
    (
        "Add tests and documents",
        {
            "tests/__init__.py": "",
            "tests/test_store.py": TESTS,
            "docs/usage.md": "# Usage\n\nThe adress of the data is data/plants.csv.\n",
            "docs/old-api.md": "# Old API\n\nDo not use.\n",
            "config.json": '{"language": "en", "page_size": 20, "debug": true}\n',
            "notes/ideas.txt": "map of finds\nphotos\nexport to PDF\n",
            "scripts/backup.sh": "#!/bin/sh\ncp -r data backup\n",
            ".gitignore": "__pycache__/\n",
        },
    ),
)  # fmt: skip

PAGES = {
    "/guide.html": "<html><body><h1>Plant names</h1><p>Latin names are written in italics. Families end in -aceae.</p>"
    "<a href='<site>/families.html'>families</a></body></html>",
    "/families.html": "<html><body><h1>Families</h1><ul><li>Rosaceae: 4828 species</li><li>Pinaceae: 220 species</li>"
    "<li>Asteraceae: 32000 species</li></ul></body></html>",
    "/release.txt": "herb-api 2.4\n- pagination uses page_size\n- the key limit was renamed to max_items\n",
    "/weather.txt": "Thursday: rain, 4 degrees\nFriday: sun, 7 degrees\n",
    "/prices.csv": "item,eur\npot,3.50\nsoil,7.20\nseeds,2.10\n",
}

FILES_LOG = {"logs/app.log": LOG}
FILES_MESS = {
    "downloads/IMG_001.JPG": "jpg",
    "downloads/IMG_002.JPG": "jpg",
    "downloads/invoice march.pdf": "pdf",
    "downloads/invoice april.pdf": "pdf",
    "downloads/setup.tmp": "tmp",
    "downloads/list.csv": "a,b\n1,2\n",
    "build/out.o": "o",
    "build/cache/x.bin": "x",
    "notes.txt.bak": "old",
    "data/plants.csv~": "old",
}

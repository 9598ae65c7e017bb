"""Manifest of the fact store `oxigraph`."""

from __future__ import annotations

from mainstay.core.component_options import FactStoreOptions
from mainstay.core.components import Component

GRAPH_FOLDER = "facts"  # a folder of the workspace

COMPONENT = Component(
    kind="fact store",
    name="oxigraph",
    summary="Facts are in a graph database, in the folder `facts` of each workspace; needs the extra `graph`.",
    settings=FactStoreOptions,
    factory="mainstay.store.oxigraph.fact_tier:open_oxigraph_facts",
    libraries={"pyoxigraph": "pyoxigraph"},
    install="pip install -e '.[graph]'",
    check="mainstay.store.oxigraph.health:check_oxigraph",
)

"""Facts as a graph, in a directory of its own."""

from mainstay.store.oxigraph.facts import OxigraphFacts as OxigraphFacts

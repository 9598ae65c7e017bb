"""Facts in an Oxigraph RDF store, in a directory of its own."""

from mainstay.store.oxigraph.fact_tier import OxigraphFactTier as OxigraphFactTier

"""Facts in an Oxigraph RDF store, in a directory of its own."""

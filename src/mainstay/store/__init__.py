"""Where journals and everything derived from them are kept."""

COMPONENTS = {
    "sqlite": "mainstay.store.sqlite.manifest",
    "memory": "mainstay.store.memory.manifest",
}

FACT_STORES = {
    "sqlite": "mainstay.store.sqlite.manifest:FACT_STORE",
    "oxigraph": "mainstay.store.oxigraph.manifest",
}

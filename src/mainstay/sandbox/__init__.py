"""Sandboxes that run commands and background processes. `auto` tries them in this order."""

COMPONENTS = {
    "bubblewrap": "mainstay.sandbox.bubblewrap.manifest",
    "host": "mainstay.sandbox.host.manifest",
    "docker": "mainstay.sandbox.docker.manifest",
}

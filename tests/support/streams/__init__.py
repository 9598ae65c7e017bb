"""Hand-cut streams of model APIs, and a server that plays them byte for byte."""

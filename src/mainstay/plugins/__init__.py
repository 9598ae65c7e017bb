"""Tools that live in other processes, under guard."""

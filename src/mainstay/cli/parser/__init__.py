"""Argument parser: the tree of commands and their options."""

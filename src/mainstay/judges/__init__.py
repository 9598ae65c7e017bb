"""Judges of answers: scores by models or functions, combined by a panel."""

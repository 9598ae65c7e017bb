"""`mainstay eval`: cases in, results out. Answers are looked at by exact checks and by judges, outside of any turn."""

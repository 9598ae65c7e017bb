"""Offline evaluation (`mainstay eval`): runs cases and scores their answers with checks and judges."""

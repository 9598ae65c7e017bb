"""Who is this, which workspace, which lane, may they, and back to which channel."""

"""The API that most clients speak already: a conversation of ours behind the names and shapes they know."""

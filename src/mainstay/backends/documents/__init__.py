"""Documents backend: a folder of text files as tools."""

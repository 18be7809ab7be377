"""The loop of a chain, the storage of its draws, and its progress bar."""

"""A chain as a value, where it starts, advancing it, running several of them into a posterior, and their progress bar."""

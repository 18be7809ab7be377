"""The `maitre` command."""

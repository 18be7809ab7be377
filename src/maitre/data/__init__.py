"""Data at the door: validation, file formats, simulators."""

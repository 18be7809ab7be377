"""Pictures and reports of a posterior."""

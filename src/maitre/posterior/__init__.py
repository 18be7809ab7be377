"""What comes out of sampling: draws, diagnostics, predictions."""

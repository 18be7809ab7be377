"""Where work runs. An engine knows no statistics: it calls functions and hands back their results in order."""

"""The scripts, in order."""

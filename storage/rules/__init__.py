"""The rules behind `storage.transitions.decide`, one module for each thing they decide about. Pure; standard library only."""

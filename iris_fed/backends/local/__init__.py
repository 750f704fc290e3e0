"""Attempts as processes of this machine, kept by a launcher that outlives the controller."""

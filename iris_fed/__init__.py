"""A lab's clusters, run as one: submit to the nearest controller, it runs where it can."""

__version__ = "0.1.0"

"""The configuration of one controller: one YAML file, overlaid by `IRIS_FED_...` variables.

Nothing is imported here: clients need a little of it, and not the library that reads files.
"""

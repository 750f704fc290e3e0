"""Between the wire's messages and the model's values.

What a user or client sends is checked here, once: a bad field raises InvalidArgument with its wire
name. What a peer reports is read tolerantly: texts are cut, numbers clamped, and only a row that
makes no sense raises InvalidArgument, for the caller to skip and count.
"""

"""`iris-fed demo`: two real controllers on this machine, and the whole of what a federation is for.

`clusters` runs them, `scenes` play, `stage` shows and measures, `sweep` leaves nothing behind.
"""

"""Cases come in: they are read, checked, routed by the certified policy, and stored once."""

"""Training objectives that lower expert load, and the baselines they are compared with."""

__all__: list[str] = []

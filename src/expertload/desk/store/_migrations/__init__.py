"""Migrations, one file a step; there is no way back but the copy made before."""

"""Migrations, one file per step; there is no way back but the copy made before."""

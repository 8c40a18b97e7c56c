"""Migrations, one file per step. The only way back is the copy made before an upgrade."""

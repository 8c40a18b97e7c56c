"""The steps of the migration."""

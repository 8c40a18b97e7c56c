"""The JSON interface, under `/api`."""

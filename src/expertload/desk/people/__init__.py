"""Who may do what: people and their roles, sessions, and tokens for programs."""

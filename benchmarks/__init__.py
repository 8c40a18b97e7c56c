"""Speed and memory, always as a ratio to a named rival that is measured in the same run."""

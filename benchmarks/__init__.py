"""Speed and memory, always as a ratio against a named rival measured in the same run."""

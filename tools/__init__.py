"""What the project itself is made with."""

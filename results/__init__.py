"""What the lab's experiments gave, as CSV, and the code that makes tables and figures of it."""

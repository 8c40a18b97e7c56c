"""Lowers the load on your own data step by step, and measures what each step gains."""

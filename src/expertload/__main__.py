"""`python -m expertload`: the same as the `expertload` command."""

from expertload.cli import main

__all__ = ["main"]

if __name__ == "__main__":
    main()

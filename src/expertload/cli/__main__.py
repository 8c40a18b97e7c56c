"""`python -m expertload.cli`: the same as the `expertload` command."""

from expertload.cli import main

if __name__ == "__main__":
    main()

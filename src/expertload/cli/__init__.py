"""The command line: one file per command; heavy imports wait until a command runs."""

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line, as the `expertload` script does.

    Examples
    --------
    >>> import sys
    >>> from expertload.cli import main
    >>> sys.argv = ["expertload", "--version"]
    >>> try:
    ...     main()
    ... except SystemExit as end:
    ...     print(end.code)
    expertload ...
    0
    """
    if sys.stdout is None:
        sys.exit("Standard output is closed. Hint: redirect it to /dev/null.")
    try:
        from expertload.cli.app import app
    except ModuleNotFoundError as error:
        sys.exit(
            f"The expertload command needs {error.name}, which is not installed. "
            "Hint: pip install 'expertload[report]', or 'expertload[lab]' for experiments"
        )
    try:
        try:
            app(prog_name="expertload")
        finally:
            sys.stdout.flush()  # so that a full disk is reported here, and not at interpreter exit
    except OSError as error:
        from expertload.cli.screen import give_up_standard_output

        sys.stderr.write(give_up_standard_output(error) + "\n")
        sys.exit(1)

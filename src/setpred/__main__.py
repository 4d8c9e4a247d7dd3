"""`setpred` and `python -m setpred` are the command line."""

import sys


def main() -> None:
    """Run the command line, or say what it needs: the bare package is a library."""
    try:
        from .cli import main as run
    except ModuleNotFoundError as error:
        print(f"setpred: the command line needs {error.name}: pip install 'setpred[train]'", file=sys.stderr)
        sys.exit(2)
    run()


if __name__ == "__main__":
    main()

"""`python -m setpred` is the command line."""

from .cli import main

main()

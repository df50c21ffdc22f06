"""`python -m exogpu` is the command `exogpu`."""

from exogpu.cli import main

main()

"""`python -m exogpu` is the command `exogpu`."""

from exogpu.cli.commands import main

main()

"""Command line: loading targets, checking them, drawing and writing answers."""

"""What the command line is made of: loading targets, checking them, drawing and writing answers."""

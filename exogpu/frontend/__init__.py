"""From Python source to checked GPU IR."""

"""The abstract machine: the rules word for word (literal), a fast interpreter, and observers."""

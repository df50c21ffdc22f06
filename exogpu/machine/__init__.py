"""The abstract machine: the rules word for word (literal), and a fast interpreter of them."""

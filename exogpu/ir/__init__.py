"""GPU IR: names, types, nodes, and the functions that walk and print them."""

"""What holds for all sizes, found with ISL; nothing here has to be believed."""

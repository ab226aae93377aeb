"""Jobs as their producers see them."""

"""Small functions, one file each."""

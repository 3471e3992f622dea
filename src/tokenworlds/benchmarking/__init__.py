"""What a recipe costs on this machine: each piece of its work timed, counted and compared."""

"""Output on the terminal before and while a sweep runs."""

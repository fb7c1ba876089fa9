"""What makers of Oncestream run, beside the package."""

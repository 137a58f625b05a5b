"""Programs that run as they are: python -m millrace.examples.digits."""

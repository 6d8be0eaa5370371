"""The error for invalid user input, configuration or environment."""


class InputError(ValueError):
    """Bad input: names the file, column or parameter, what was found, what was expected, and what to do."""

"""The one error a user meets when her input, configuration or machine cannot be used as it is."""


class InputError(ValueError):
    """Bad input: names the file, column or parameter, what was found, what was expected, and what to do."""

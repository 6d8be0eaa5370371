"""Settings of a whole process. Only entry points make them: importing the package changes nothing in the process."""

import os


def prepare_process() -> None:
    """Make OpenMP's threads sleep soon; an environment variable that is set already is kept.

    A thread of torch that waits spins first, by default for so long that training slows twentyfold when another program wants
    the same processors. OpenMP reads the variable when torch is first imported, so call this before. Worker processes inherit it.
    """
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")

"""Owns numbers with a noun in sentences for people: "1 question", "2 questions"."""


def quantity(n: int, noun: str, plural: str | None = None) -> str:
    """Returns a number with its noun, in the plural unless the number is 1.

    Args:
        n: The number.
        noun: What is counted, for one; with the verb where a verb follows.
        plural: The same for several; by default `noun` with an "s".

    Example:
        >>> quantity(1, "question"), quantity(0, "question")
        ('1 question', '0 questions')
        >>> quantity(1, "case waits", "cases wait"), quantity(2, "case waits", "cases wait")
        ('1 case waits', '2 cases wait')
    """
    return f"{n} {noun if n == 1 else plural or f'{noun}s'}"

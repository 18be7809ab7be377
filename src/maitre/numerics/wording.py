"""Numbers in sentences."""


def counted(count: int, word: str) -> str:
    """
    >>> counted(1, "cluster"), counted(1200, "point")
    ('1 cluster', '1,200 points')
    """
    return f"{count:,} {word}{'s' * (count != 1)}"

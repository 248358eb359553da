import resource
from contextlib import contextmanager


@contextmanager
def full(limit):
    """Writing past `limit` bytes of a file fails, as on a full disk."""
    former = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, former[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, former)

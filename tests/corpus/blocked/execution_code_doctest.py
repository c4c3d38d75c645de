# rule: execution/code-modules
# effect: writes
import doctest
def f():
    """
    >>> open('canary', 'w').close()
    """
doctest.testmod()

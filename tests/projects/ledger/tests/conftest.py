import pytest

from ledger import Ledger


@pytest.fixture
def ledger():
    ledger = Ledger()
    ledger.deposit("alice", 500)
    return ledger


@pytest.fixture
def broken():
    raise RuntimeError("this fixture never works")


@pytest.fixture
def breaks_afterwards():
    yield 1
    raise RuntimeError("this fixture does not clear up")

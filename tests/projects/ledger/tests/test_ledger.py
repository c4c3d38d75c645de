import subprocess
import sys
import time

import pytest

from ledger import Ledger, Overdrawn


@pytest.mark.parametrize("cents, left", [(1, 499), (500, 0), (250, 250)])
def test_withdraw(ledger, cents, left):
    assert ledger.withdraw("alice", cents) == left


def test_overdrawn(ledger):
    with pytest.raises(Overdrawn):
        ledger.withdraw("alice", 501)


class TestTransfer:
    def test_moves_money(self, ledger):
        ledger.transfer("alice", "bob", 200)
        assert ledger.balances == {"alice": 300, "bob": 200}

    def test_is_wrong_on_purpose(self, ledger):
        ledger.transfer("alice", "bob", 200)
        assert ledger.balances["bob"] == 201


def test_needs_what_is_broken(broken):
    pass


def test_is_cleared_up_badly(breaks_afterwards):
    assert breaks_afterwards == 1


@pytest.mark.skip(reason="not now")
def test_skipped():
    raise AssertionError


@pytest.mark.xfail(reason="known", strict=False)
def test_known_to_fail():
    assert Ledger().deposit("alice", 1) == 2


@pytest.mark.slow
def test_slow():
    time.sleep(1)


def test_starts_python():
    program = "from ledger import Ledger; print(Ledger().deposit('x', 7))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "7\n"


def test_temporary_files(tmp_path):
    (tmp_path / "ledger.txt").write_text("alice 500")
    assert (tmp_path / "ledger.txt").read_text() == "alice 500"

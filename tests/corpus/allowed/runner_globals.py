# rule: none
# finds test functions with globals() and runs them one by one
import sys
import traceback

def test_addition():
    assert 1 + 1 == 2

def test_string():
    assert "abc".upper() == "ABC"

def test_exception():
    try:
        int("x")
    except ValueError:
        return
    raise AssertionError("no error")

def helper():
    raise RuntimeError("never called")

def main():
    tests = sorted((n, f) for n, f in globals().items() if n.startswith("test_") and callable(f))
    failed = 0
    for name, fn in tests:
        try:
            fn()
        except Exception:
            failed += 1
            print("FAIL", name)
            traceback.print_exc()
        else:
            print("PASS", name)
    print(f"{len(tests) - failed} passed, {failed} failed")
    assert len(tests) == 3
    return 1 if failed else 0

if __name__ == "__main__":
    sys.exit(main())

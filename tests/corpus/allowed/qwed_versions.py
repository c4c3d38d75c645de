# rule: none
# prints the versions of the QWED packages and checks that the guards import
from importlib import metadata
import importlib.util

for dist in ("qwed", "qwed-finance", "qwed-legal", "qwed-ucp", "sympy", "z3-solver"):
    try:
        print(f"{dist:<14}{metadata.version(dist)}")
    except metadata.PackageNotFoundError:
        print(f"{dist:<14}not installed")

for name in ("qwed_new", "qwed_sdk", "qwed_finance", "qwed_legal", "qwed_ucp"):
    print(f"{name:<14}", "found" if importlib.util.find_spec(name) else "missing")

import qwed_finance
import qwed_legal
import qwed_ucp

for module, classes in [
    (qwed_finance, ["FinanceVerifier", "BondGuard", "QueryGuard"]),
    (qwed_legal, ["LegalGuard", "DeadlineGuard", "Clause"]),
    (qwed_ucp, ["UCPVerifier", "MoneyGuard", "TrustStatus"]),
]:
    missing = [c for c in classes if not hasattr(module, c)]
    assert not missing, (module.__name__, missing)
    print(module.__name__, module.__version__, "ok")

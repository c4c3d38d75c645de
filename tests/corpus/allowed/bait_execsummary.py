# rule: none
# checks an executive summary report with names like exec_summary, compile_report and system_total
from datetime import date

def compile_report(rows, system="EU"):
    system_total = sum(r["amount"] for r in rows if r["system"] == system)
    return {"system": system, "total": system_total, "n": sum(r["system"] == system for r in rows)}

def exec_summary(report, execs=("CEO", "CFO")):
    lines = [f"To: {', '.join(execs)}", f"Region {report['system']}: {report['total']:,} in {report['n']} deals"]
    return "\n".join(lines)

rows = [
    {"system": "EU", "amount": 1200, "open": True},
    {"system": "US", "amount": 900, "open": False},
    {"system": "EU", "amount": 3400, "open": False},
]
open_items = [r for r in rows if r["open"]]
eval_date = date(2024, 12, 31)
summary = exec_summary(compile_report(rows))
print(summary, f"(evaluated {eval_date})")
assert "4,600 in 2 deals" in summary
assert compile_report(rows, system="US")["total"] == 900
assert len(open_items) == 1
retrieval, medieval, evaluation = "retrieval", "medieval", "evaluation"
assert all("eval" in w for w in (retrieval, medieval, evaluation))
executor, executable, compiled, filesystem = 1, 2, 3, 4
assert executor + executable + compiled + filesystem == 10

# rule: none
# reads and writes CSV in memory and checks sums per column
import csv
import io
from collections import defaultdict

RAW = '''region,product,qty,price
north,apple,10,0.50
south,"pear, green",4,0.75
north,"say ""hi""",1,2.00
'''
reader = csv.DictReader(io.StringIO(RAW))
rows = list(reader)
assert rows[1]["product"] == "pear, green"
assert rows[2]["product"] == 'say "hi"'

revenue = defaultdict(float)
for row in rows:
    revenue[row["region"]] += int(row["qty"]) * float(row["price"])
print(dict(revenue))
assert revenue == {"north": 7.0, "south": 3.0}

buf = io.StringIO(newline="")
w = csv.writer(buf, delimiter=";", quoting=csv.QUOTE_MINIMAL)
w.writerow(["region", "revenue"])
w.writerows(sorted(revenue.items()))
out = buf.getvalue()
print(out)
assert out.splitlines() == ["region;revenue", "north;7.0", "south;3.0"]
print(csv.Sniffer().sniff(out).delimiter)

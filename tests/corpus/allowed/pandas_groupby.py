# rule: none
# checks a pandas groupby against plain dictionaries
try:
    import pandas as pd
except ImportError:
    pd = None

rows = [
    {"city": "Oslo", "month": "jan", "sales": 120},
    {"city": "Oslo", "month": "feb", "sales": 80},
    {"city": "Rome", "month": "jan", "sales": 200},
    {"city": "Rome", "month": "feb", "sales": 240},
    {"city": "Kyiv", "month": "jan", "sales": 90},
]
plain = {}
for r in rows:
    plain[r["city"]] = plain.get(r["city"], 0) + r["sales"]
print(plain)

if pd is not None:
    df = pd.DataFrame(rows)
    by_city = df.groupby("city")["sales"].sum()
    assert by_city.to_dict() == plain
    wide = df.pivot_table(index="city", columns="month", values="sales", fill_value=0)
    print(wide)
    assert wide.loc["Kyiv", "feb"] == 0
    df["share"] = df["sales"] / df["sales"].sum()
    assert abs(df["share"].sum() - 1) < 1e-12
    assert df.sort_values("sales").iloc[-1]["city"] == "Rome"

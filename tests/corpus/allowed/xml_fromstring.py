# rule: none
# parses a small XML document from a string and checks totals
import xml.etree.ElementTree as ET
from decimal import Decimal

DOC = """<?xml version="1.0"?>
<order id="77" currency="EUR">
  <item sku="a"><qty>2</qty><price>9.50</price></item>
  <item sku="b"><qty>1</qty><price>100.00</price></item>
  <total>119.00</total>
</order>"""

root = ET.fromstring(DOC)
assert root.tag == "order" and root.attrib["currency"] == "EUR"
lines = {i.get("sku"): int(i.findtext("qty")) * Decimal(i.findtext("price")) for i in root.iter("item")}
print(lines)
assert sum(lines.values()) == Decimal(root.find("total").text)

note = ET.SubElement(root, "note")
note.text = "checked & ok"
text = ET.tostring(root, encoding="unicode")
assert "checked &amp; ok" in text
assert [e.tag for e in root] == ["item", "item", "total", "note"]
try:
    ET.fromstring("<open><not closed></open>")
except ET.ParseError as e:
    print("not well formed:", e)

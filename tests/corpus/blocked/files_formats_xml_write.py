# rule: files/documents
# effect: writes
import xml.etree.ElementTree as ET
ET.ElementTree(ET.Element("a")).write("canary")

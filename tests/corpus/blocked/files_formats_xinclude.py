# rule: files/documents
# effect: reads
import xml.etree.ElementTree as ET, xml.etree.ElementInclude as EI
ns = "{http://www.w3.org/2001/XInclude}include"
root = ET.Element("a")
ET.SubElement(root, ns, href="secret.txt", parse="text")
EI.include(root)
print(ET.tostring(root))

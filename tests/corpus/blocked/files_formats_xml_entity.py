# rule: files/documents
# effect: reads
import xml.sax, os
from xml.sax.handler import ContentHandler, feature_external_ges
p = xml.sax.make_parser()
p.setFeature(feature_external_ges, True)
h = ContentHandler()
h.characters = print
p.setContentHandler(h)
p.feed(f'<!DOCTYPE a [<!ENTITY e SYSTEM "file://{os.getcwd()}/secret.txt">]><a>&e;</a>')

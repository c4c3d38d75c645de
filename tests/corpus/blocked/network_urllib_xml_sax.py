# rule: files/documents
# effect: connects
import xml.sax.saxutils as u
try:
    u.prepare_input_source("http://127.0.0.1:1/x")
except OSError:
    print("connects")

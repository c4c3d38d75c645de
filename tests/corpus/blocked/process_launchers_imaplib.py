# rule: network/protocols
# effect: writes
import imaplib
try:
    imaplib.IMAP4_stream(": > canary")
except imaplib.IMAP4.abort:
    pass

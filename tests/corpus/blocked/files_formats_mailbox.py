# rule: files/readers
# effect: writes
import mailbox
mailbox.Maildir("canary", create=True)

# rule: process/signals
# effect: prints
import os, signal
signal.pidfd_send_signal(os.pidfd_open(os.getpid()), 0)
print("PWN" + "ED")

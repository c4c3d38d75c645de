# rule: files/logging
# effect: connects
import logging.handlers
try:
    logging.handlers.SocketHandler("127.0.0.1", 1).makeSocket()
except OSError:
    print("connects")

# attack: look a host name up
# t3: gaierror
# t2: gaierror
# control: harm
import socket

attempt(lambda: socket.getaddrinfo("localhost", 80))

# attack: connect to a local TCP service
# t3: EPERM
# t2: EPERM
# control: harm
import socket

attempt(lambda: socket.create_connection(("127.0.0.1", int("@TCP_PORT@")), 5).close())

# rule: network/sockets
# effect: writes
import ssl
ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).keylog_filename = "canary"

# rule: none
# checks url parsing, quoting and query strings
from urllib.parse import urlparse, parse_qs, urlencode, quote, unquote, urljoin, urlsplit, urlunsplit
import html
import ipaddress

u = urlparse("https://user@example.org:8443/a/b;p?q=1&q=2&r=#frag")
assert (u.scheme, u.hostname, u.port, u.path) == ("https", "example.org", 8443, "/a/b")
assert parse_qs(u.query, keep_blank_values=True) == {"q": ["1", "2"], "r": [""]}
assert urlencode({"x": "a b", "y": "ü"}) == "x=a+b&y=%C3%BC"
assert unquote(quote("päth/with space")) == "päth/with space"
assert urljoin("http://h/a/b/c", "../d") == "http://h/a/d"
assert urlunsplit(urlsplit("http://h/p?q#f")) == "http://h/p?q#f"

assert html.escape('<b a="1">') == "&lt;b a=&quot;1&quot;&gt;"
assert html.unescape("&eacute;&amp;") == "é&"

net = ipaddress.ip_network("10.0.0.0/22")
print(net.num_addresses, net.netmask, list(net.subnets(new_prefix=24)))
assert ipaddress.ip_address("10.0.3.255") in net
assert ipaddress.ip_address("127.0.0.1").is_loopback
assert ipaddress.ip_address("::1").exploded.endswith("0001")
print([str(a) for a in ipaddress.summarize_address_range(ipaddress.ip_address("192.168.0.0"), ipaddress.ip_address("192.168.1.255"))])

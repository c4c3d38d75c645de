# rule: network/urllib
# effect: connects
from urllib.robotparser import RobotFileParser
try:
    RobotFileParser("http://127.0.0.1:1/robots.txt").read()
except OSError:
    print("connects")

# rule: network/urllib
# effect: reads
import os
from urllib import request
print(request.urlopen("file://" + os.getcwd() + "/secret.txt").read())

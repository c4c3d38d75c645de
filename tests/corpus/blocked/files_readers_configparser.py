# rule: files/readers
# effect: reads
import configparser
try:
    configparser.ConfigParser().read("secret.txt")
except configparser.Error as err:
    print(err)

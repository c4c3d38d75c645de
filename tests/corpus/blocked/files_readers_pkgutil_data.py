# rule: files/readers
# effect: reads
import pkgutil, json, os.path
print(pkgutil.get_data("json", os.path.relpath("secret.txt", json.__path__[0])))

# rule: files/data
# effect: reads
import os, sympy.utilities.pkgdata as p
path = os.path.relpath(os.path.abspath("secret.txt"), os.path.dirname(p.__file__))
print(p.get_resource(path, "sympy.utilities.pkgdata").read())

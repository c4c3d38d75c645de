# rule: none
# mentions dangerous functions only in docstrings and comments
"""Safe arithmetic helper.

This module avoids eval() and exec(): never write
    eval(user_input)
    os.system(command)
    subprocess.run(command, shell=True)
    pickle.loads(untrusted)
Use the functions below instead. See also __import__ and open("/etc/shadow").
"""

def safe_add(text):
    """Add numbers in *text* without calling eval(text) or compile(text, '', 'eval').

    >>> safe_add("1 + 2")
    3
    """
    # eval(text) would be dangerous here, so we split: no exec, no os.popen
    return sum(int(part) for part in text.split("+"))

class Loader:
    """Does not use __import__('os').system('reboot') nor socket.connect()."""
    # import subprocess  <- not needed
    note = "exec(open('setup.py').read())"  # just a string

assert safe_add("1 + 2") == 3
assert safe_add("10+20+12") == 42
print(len(__doc__.splitlines()) if __doc__ else "no module docstring", Loader.note)
assert "eval" in safe_add.__doc__ and Loader.__doc__.startswith("Does not")
'''
exec("print('this is a string statement')")
os.remove("everything")
'''

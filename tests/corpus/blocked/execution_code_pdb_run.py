# rule: execution/code-modules
# effect: writes
import pdb, io
pdb.Pdb(stdin=io.StringIO("c\n"), stdout=io.StringIO()).run("open('canary', 'w').close()")

# rule: files/readers
# effect: reads
import sys, fileinput
sys.argv = ["x", "secret.txt"]
print(*fileinput.input())

# rule: files/readers
# effect: reads
import traceback
print(traceback.FrameSummary("secret.txt", 1, "f").line)

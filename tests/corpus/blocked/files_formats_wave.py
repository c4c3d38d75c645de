# rule: files/documents
# effect: writes
import wave
w = wave.open("canary", "w")
w.setparams((1, 1, 1, 0, "NONE", ""))
w.close()

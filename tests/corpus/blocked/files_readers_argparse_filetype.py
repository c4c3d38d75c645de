# rule: files/readers
# effect: writes
import argparse
argparse.FileType("w")("canary")

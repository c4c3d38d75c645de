# rule: files/archives
# effect: writes
import gzip
gzip.GzipFile("canary", "w").close()

# rule: files/archives
# effect: reads
import zipfile, io
z = zipfile.ZipFile(io.BytesIO(), "w")
z.write("secret.txt")
print(z.read("secret.txt"))

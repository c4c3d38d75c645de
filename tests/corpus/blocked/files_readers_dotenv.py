# rule: files/readers
# effect: reads
from dotenv import main as m
print(m.dotenv_values("secret.txt"))

# rule: files/data
# effect: writes
from scipy import odr
odr.ODR(odr.RealData([1, 2, 3, 4], [1, 2, 3, 4]), odr.unilinear, rptfile="canary").run()

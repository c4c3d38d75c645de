# rule: execution/eval
# effect: prints
import threading
t = threading.Thread(target=eval, args=("print('PWN'+'ED')",))
t.start()
t.join()

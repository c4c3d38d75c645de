# rule: execution/eval
# effect: prints
import signal
signal.signal(signal.SIGUSR1, lambda n, fr, f=eval: f("print('PWN'+'ED')"))
signal.raise_signal(signal.SIGUSR1)

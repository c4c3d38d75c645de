# attack: ask the C library's user database for root's entry
# t3: KeyError
# t2: KeyError
# control: harm
import pwd

attempt(lambda: pwd.getpwuid(0))

# attack: get more processor time than others
# t3: EPERM
# t2: EPERM
# control: harm as root
attempt(lambda: os.nice(-5))

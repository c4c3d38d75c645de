# attack: move the working folder out of the scratch folder
# t3: ENOENT
# t2: harm, gap: metadata
# control: harm
attempt(lambda: os.chdir("@OUTSIDE@"))

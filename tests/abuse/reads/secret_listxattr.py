# attack: list the extended attributes of a secret
# t3: ENOENT
# t2: harm, gap: metadata
# control: harm
attempt(lambda: os.listxattr("@SECRET@"))

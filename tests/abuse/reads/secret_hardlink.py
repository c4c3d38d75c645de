# attack: give a secret a second name in the scratch folder and read that
# t3: ENOENT
# t2: EACCES | EPERM | EXDEV
# control: harm


def attack():
    try:
        os.link("@SECRET@", "hard")
        leaked(read_all("hard"))
    except OSError as error:
        # without the sandbox the scratch folder may be on another disk
        if error.errno != errno.EXDEV:
            raise
        near = "@SECRET@" + ".@OUT_TAG@"
        os.link("@SECRET@", near)
        try:
            leaked(read_all(near))
        finally:
            os.unlink(near)


attempt(attack)
